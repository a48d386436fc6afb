// The list: only the rows in sight exist as elements.

import { byId, el, phaseName, plain, seconds, span, tone } from "./dom.js";

const HEIGHT = 32;
const SPARE = 8;
const key = (namespace, name) => `${namespace}/${name}`;

/** Counted restarts; the uncounted ones behind them, where there are any. */
export const counted = (row) => (row.uncountedRestarts ? `${row.restarts} (+${row.uncountedRestarts})` : row.restarts);

/** How many AppWrappers are shown, of how many. */
export const total = (shown, all) => `${shown === all ? "" : `${shown} of `}${all} AppWrapper${all === 1 ? "" : "s"}`;

export class List {
  #rows = new Map();
  #shown = [];
  #pool = [];
  #chosen = "";
  #many = false;
  #drawing = 0;
  #stale = true;

  /** `open(row)` is called when one is chosen; `now()` tells the time, in seconds. */
  constructor(open, now) {
    this.open = open;
    this.now = now;
    this.box = byId("list");
    this.canvas = byId("canvas");
    this.box.addEventListener("scroll", () => this.#later());
    this.box.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.#choose(Number(row.dataset.index));
    });
    this.box.addEventListener("keydown", (event) => this.#key(event));
    for (const id of ["search", "phase", "queue", "sort"]) byId(id).addEventListener("input", () => this.changed());
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    new ResizeObserver(() => this.#later()).observe(this.box);
  }

  /** Forgets every row. */
  clear() {
    this.#rows.clear();
    this.changed();
  }

  /** Takes over new, changed and removed rows. */
  take(set, gone) {
    for (const row of set) this.#rows.set(key(row.namespace, row.name), row);
    for (const [namespace, name] of gone) this.#rows.delete(key(namespace, name));
    if (set.length || gone.length) this.changed();
  }

  /** Replaces all rows. */
  replace(rows) {
    this.#rows = new Map(rows.map((row) => [key(row.namespace, row.name), row]));
    this.changed();
  }

  find = (namespace, name) => this.#rows.get(key(namespace, name));
  first = () => this.#shown[0];

  /** Marks the row of an AppWrapper. */
  mark(namespace, name) {
    this.#chosen = key(namespace, name);
    this.#later();
  }

  changed() {
    this.#stale = true;
    this.#later();
  }

  /** Ages go on. */
  tick() {
    this.#later();
  }

  #later() {
    this.#drawing ||= requestAnimationFrame(() => {
      this.#drawing = 0;
      if (this.#stale) this.#filter();
      this.#draw();
    });
  }

  #filter() {
    this.#stale = false;
    const rows = [...this.#rows.values()];
    this.#many = rows.some((row) => row.namespace !== rows[0].namespace);
    options("phase", rows.map((row) => phaseName(row.phase)));
    options("queue", rows.map((row) => row.queue ?? "(none)"));
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [phase, queue, sort] = ["phase", "queue", "sort"].map((id) => byId(id).value);
    this.#shown = rows.filter((row) => {
      if (phase && phaseName(row.phase) !== phase) return false;
      if (queue && (row.queue ?? "(none)") !== queue) return false;
      const text = `${row.namespace}/${row.name} ${row.state}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const name = (row) => key(row.namespace, row.name);
    const byName = (a, b) => (name(a) < name(b) ? -1 : 1);
    const rank = (row) => ["bad", "busy", "", "good"].indexOf(tone(row.phase));
    this.#shown.sort((a, b) => {
      if (sort === "newest" && a.created !== b.created) return (a.created ?? "") < (b.created ?? "") ? 1 : -1;
      if (sort === "failed" && rank(a) !== rank(b)) return rank(a) - rank(b);
      return byName(a, b);
    });
    const count = total(this.#shown.length, rows.length);
    if (byId("count").textContent !== count) byId("count").textContent = count;
    byId("table").setAttribute("aria-rowcount", this.#shown.length + 1);
    this.canvas.style.height = `${this.#shown.length * HEIGHT}px`;
  }

  #draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - SPARE);
    const last = Math.min(this.#shown.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / HEIGHT) + SPARE);
    while (this.#pool.length < last - first) {
      const row = el("div", { class: "row", role: "row" });
      for (let cell = 0; cell < 6; cell += 1) row.append(el("span", { role: "cell" }));
      this.#pool.push(row);
      this.canvas.append(row);
    }
    this.#pool.forEach((element, n) => {
      const index = first + n;
      element.hidden = index >= last;
      if (index < last) this.#fill(element, index);
    });
    this.canvas.style.position = "relative";
    const chosen = this.#shown.findIndex((row) => key(row.namespace, row.name) === this.#chosen);
    if (chosen >= first && chosen < last) this.box.setAttribute("aria-activedescendant", `row-${chosen}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  #fill(element, index) {
    const row = this.#shown[index];
    const name = this.#many ? key(row.namespace, row.name) : row.name;
    const left = row.retryAfter ? seconds(row.retryAfter) - this.now() : 0;
    const pauses = left > 0 && ["Resetting", "Suspended"].includes(row.phase);
    const state = pauses ? `restarting in ${span(left)}` : row.state;
    const age = row.created ? span(this.now() - seconds(row.created)) : "-";
    const texts = [name, phaseName(row.phase), row.queue ?? "-", counted(row), state, age].map(plain);
    [...element.children].forEach((cell, n) => {
      if (cell.textContent !== texts[n]) cell.textContent = texts[n];
    });
    element.children[0].title = texts[0];
    element.children[1].className = `phase ${tone(row.phase)}`;
    element.children[4].title = texts[4];
    element.id = `row-${index}`;
    element.dataset.index = index;
    element.setAttribute("aria-rowindex", index + 2);
    element.classList.toggle("chosen", key(row.namespace, row.name) === this.#chosen);
    element.style.transform = `translateY(${index * HEIGHT}px)`;
  }

  #choose(index) {
    const row = this.#shown[index];
    if (!row) return;
    this.mark(row.namespace, row.name);
    this.open(row);
  }

  #key(event) {
    const at = this.#shown.findIndex((row) => key(row.namespace, row.name) === this.#chosen);
    const page = Math.max(1, Math.floor(this.box.clientHeight / HEIGHT) - 1);
    const last = this.#shown.length - 1;
    const to = { ArrowDown: at + 1, ArrowUp: Math.max(0, at - 1), PageDown: at + page, PageUp: at - page, Home: 0, End: last }[event.key];
    if (event.key === "Enter") byId("story").focus();
    if (to === undefined) return;
    event.preventDefault();
    const index = Math.min(last, Math.max(0, to));
    const top = index * HEIGHT;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    if (top + HEIGHT > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + HEIGHT - this.box.clientHeight;
    this.#choose(index);
  }
}

/** Keeps the options of a select as there are values. */
function options(id, values) {
  const select = byId(id);
  const wanted = [...new Set(values)].sort().slice(0, 200);
  const known = [...select.options].slice(1).map((option) => option.value);
  if (wanted.length === known.length && wanted.every((value, n) => value === known[n])) return;
  const chosen = select.value;
  if (chosen && !wanted.includes(chosen)) wanted.push(chosen);
  select.replaceChildren(select.options[0], ...wanted.map((value) => el("option", { value }, value)));
  select.value = chosen;
}
