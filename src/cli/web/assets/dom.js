// Elements and times. Whatever comes from the cluster becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";
/** Control and format characters, line separators, and what is invisible. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A text as the commands print it: what nobody sees, or what reorders its neighbours, is escaped. */
export const plain = (text) =>
  String(text).replace(UNSAFE, (c) => SHORT[c] ?? `\\u{${c.codePointAt(0).toString(16)}}`);

/** An element with attributes and children; strings become text. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  // a value is compared, not read
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, name === "value" ? value : plain(value));
  element.append(...children.map((child) => (typeof child === "string" ? plain(child) : child)));
  return element;
}

/** The same of SVG. */
export function shape(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, plain(value));
  element.textContent = plain(text);
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Data of this server; an error has its words. */
export async function ask(path, query = {}, signal = undefined) {
  const response = await fetch(`${path}?${new URLSearchParams(query)}`, { signal });
  const data = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(data.error ?? `the server answered ${response.status}`);
  return data;
}

/** `1h5m`, `45s`: the longer it is, the less exactly; as in `list` and kubectl. */
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const two = (large, unit, small, smaller) => (small ? `${large}${unit}${small}${smaller}` : `${large}${unit}`);
  if (s < 120) return `${s}s`;
  if (s < 10800) return two(Math.floor(s / 60), "m", s < 600 ? s % 60 : 0, "s");
  if (s < 172800) return two(Math.floor(s / 3600), "h", s < 28800 ? Math.floor((s % 3600) / 60) : 0, "m");
  if (s < 691200) return two(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
  return `${Math.floor(s / 86400)}d`;
}

export const seconds = (time) => Date.parse(time) / 1000;

/** The class of a phase. */
export function tone(phase) {
  if (phase === "Succeeded") return "good";
  if (phase === "Failed" || phase === null) return "bad";
  return ["Resetting", "Suspending", "Terminating"].includes(phase) ? "busy" : "";
}

export const phaseName = (phase) => (phase === null ? "(unreadable)" : phase === "" ? "(new)" : phase);
