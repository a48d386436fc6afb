// A recording: the slider goes through its time.

import { byId, el, seconds, span } from "./dom.js";

/** Milliseconds between two pictures while it plays, and at most so many pictures from begin to end. */
const FRAME = 200;
const FRAMES = 300;

export class Player {
  #timer = 0;
  #drawn = -1;

  /** `moved(second)` is called when the time is another. */
  constructor(info, moved) {
    this.moments = info.moments;
    this.lines = info.lines.map((line) => ({ ...line, second: Math.floor(seconds(line.at)) }));
    this.moved = moved;
    this.slider = byId("slider");
    this.slider.min = 0;
    this.slider.max = this.moments.length - 1;
    this.slider.value = this.slider.max;
    this.slider.addEventListener("input", () => this.#move());
    byId("play").addEventListener("click", () => (this.#timer ? this.#stop() : this.#start()));
    byId("lines").addEventListener("click", (event) => {
      const at = event.target.closest("li")?.dataset.at;
      if (at) this.seek(Number(at));
    });
    byId("player").hidden = this.moments.length < 2;
    this.#move();
  }

  now = () => this.moments[Number(this.slider.value)];

  /** Goes to the first moment that is not before this one. */
  seek(second) {
    const index = this.moments.findIndex((moment) => moment >= second);
    this.slider.value = index < 0 ? this.slider.max : index;
    this.#move();
  }

  #isOver = () => this.slider.value === this.slider.max;

  #start() {
    if (this.#isOver()) this.slider.value = 0;
    const step = Math.max(1, Math.ceil(this.moments.length / FRAMES));
    byId("play").textContent = "Pause";
    this.#timer = setInterval(() => {
      this.slider.value = Number(this.slider.value) + step;
      this.#move();
      if (this.#isOver()) this.#stop();
    }, FRAME);
  }

  #stop() {
    clearInterval(this.#timer);
    this.#timer = 0;
    byId("play").textContent = "Play";
  }

  #move() {
    const [from, to] = [this.moments[0], this.moments.at(-1)];
    const clock = span(this.now() - from);
    this.slider.setAttribute("aria-valuetext", clock);
    byId("clock").textContent = `${clock} of ${span(to - from)}`;
    this.#tell();
    this.moved(this.now());
  }

  /** The lines until now, the last in sight. */
  #tell() {
    const until = this.lines.filter((line) => line.second <= this.now());
    if (until.length === this.#drawn) return;
    this.#drawn = until.length;
    const list = byId("lines");
    list.replaceChildren(...until.slice(-300).map((line) => {
      const at = line.second;
      const about = line.object ? `${line.object}  ` : "";
      return el("li", { "data-at": at }, el("time", {}, span(at - this.moments[0])), `${about}${line.text}`);
    }));
    list.scrollTop = list.scrollHeight;
  }
}
