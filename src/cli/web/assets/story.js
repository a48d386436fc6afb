// One AppWrapper: what it does, why, and what comes next.

import { byId, el, phaseName, plain, seconds, shape, span, tone } from "./dom.js";

/** Shows a story. What had the focus has it again. */
export function show(story) {
  const { description } = story;
  const article = byId("story");
  const focused = article.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  const top = article.scrollTop;
  article.replaceChildren(
    el("h2", {}, `${description.namespace}/${description.name} `,
      el("span", { class: `phase ${tone(description.phase ?? "")}` }, phaseName(description.phase ?? ""))),
    el("p", { class: "muted" }, story.heading.slice(`${description.namespace}/${description.name}: `.length)),
    ...story.deadlines.slice(0, 3).map(next),
    part("Timeline", drawing(story.drawing), el("p", { id: "detail", "aria-live": "polite" }), save(story)),
    part("Why", lines(story.why)),
    ...(story.attempts ? [part("Attempts", table(story.attempts))] : []),
    ...(story.ledger ? [part("Usage", el("p", {}, story.ledger.summary), table(story.ledger))] : []),
    part("Resources", el("ul", { class: "tree" }, node(story.tree)), ...story.tree.notes.map((note) => el("p", { class: "muted" }, note))),
  );
  article.scrollTop = top;
  if (focused) article.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

/** Says why there is no story. */
export function fail(error) {
  byId("story").replaceChildren(el("p", { class: "bad", role: "alert" }, error.message));
}

/** Counts the deadlines down. */
export function countDown(now) {
  for (const element of document.querySelectorAll("time[data-at]")) {
    const left = Number(element.dataset.at) - now;
    const text = left > 0 ? `in ${span(left)}` : "now";
    if (element.textContent !== text) element.textContent = text;
  }
}

/** Links to the same as files. */
function save({ now, description: { namespace, name } }) {
  const query = new URLSearchParams({ namespace, name, at: Math.floor(seconds(now)) });
  const link = (file, text) => el("a", { href: `${file}?${query}`, download: "", "data-focus": file }, text);
  return el("p", {}, "Save as ", link("picture.svg", "image"), " or ", link("picture.html", "document"));
}

const part = (title, ...children) => el("section", { "aria-label": title }, el("h3", {}, title), ...children);

const next = (deadline) => el("p", { class: "next" },
  el("time", { datetime: deadline.at, "data-at": seconds(deadline.at) }), ` ${deadline.what}`);

function lines(all) {
  const rows = all.map((line) => el("tr", {}, el("th", { scope: "row" }, line.name), el("td", {}, line.value)));
  return el("table", {}, el("tbody", {}, ...rows));
}

function table(given) {
  const row = (tag, cells) => el("tr", {}, ...cells.map((cell) => el(tag, tag === "th" ? { scope: "col" } : {}, cell)));
  return el("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Table" },
    el("table", {}, el("thead", {}, row("th", given.titles)), el("tbody", {}, ...given.rows.map((cells) => row("td", cells)))));
}

function node(given) {
  const bad = given.pod?.phase === "Failed";
  const children = given.children.map(node);
  return el("li", {},
    el("span", { class: bad ? "bad" : "" }, `${given.kind}/${given.name}`), el("span", { class: "muted" }, ` ${given.state}`),
    ...(children.length ? [el("ul", {}, ...children)] : []));
}

function drawing(given) {
  const svg = shape("svg", { class: "timeline", viewBox: `0 0 ${given.width} ${given.height}`, role: "group", "aria-label": given.label });
  given.shapes.forEach((one, n) => svg.append(one.shape === "bar" ? bar(one, n) : line(one)));
  const tell = (event) => {
    const title = event.target.dataset?.title;
    if (title) byId("detail").textContent = title;
  };
  svg.addEventListener("focusin", tell);
  svg.addEventListener("pointerover", tell);
  return el("div", { class: "wide" }, svg);
}

function bar({ x, y, width, height, class: name, title }, n) {
  const rect = shape("rect", { x, y, width, height, class: name });
  if (title) {
    rect.setAttribute("tabindex", "0");
    rect.setAttribute("role", "img");
    rect.setAttribute("aria-label", plain(title));
    rect.dataset.title = plain(title);
    rect.dataset.focus = `bar-${n}`;
    rect.append(shape("title", {}, title));
  }
  return rect;
}

function line(one) {
  if (one.shape === "line") {
    const { x1, y1, x2, y2, class: name } = one;
    return shape("line", { x1, y1, x2, y2, class: name });
  }
  return shape("text", { x: one.x, y: one.y, class: one.class }, one.text);
}
