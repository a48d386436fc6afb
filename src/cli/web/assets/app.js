// The page: a list beside one AppWrapper, of a cluster or of a recording.

import { ask, byId, el, plain } from "./dom.js";
import { List } from "./list.js";
import { Player } from "./play.js";
import { countDown, fail, show } from "./story.js";

/** A story is read again at the latest after so long, since its pods change without it; and not sooner than. */
const AGAIN = 15_000;
const SOONEST = 1_000;

let player;
let reading;
/** Whose story is being read, and whether it has changed since. */
let readingOf = "";
let again = false;
let readAt = 0;
let waiting = 0;
/** What the server's clock is ahead, in seconds. */
let ahead = 0;

const now = () => (player ? player.now() : Date.now() / 1000 + ahead);
const list = new List((row) => open(row.namespace, row.name), now);

/** Namespace and name in the address. */
function chosen() {
  const [namespace, name] = decodeURIComponent(location.hash.slice(1)).split("/");
  return name ? { namespace, name } : undefined;
}

function open(namespace, name) {
  const hash = `#${namespace}/${name}`;
  if (location.hash === hash) read();
  else location.hash = hash;
}

/**
 * Reads the story of the chosen one. Where it is being read already, it is read once more after that: changes that come
 * faster than answers would keep it from being shown. An answer about another one is no longer waited for.
 */
async function read() {
  const one = chosen();
  if (!one) return;
  clearTimeout(waiting);
  waiting = 0;
  if (reading && !player && readingOf === location.hash) {
    again = true;
    return;
  }
  reading?.abort();
  const own = (reading = new AbortController());
  readingOf = location.hash;
  again = false;
  readAt = Date.now();
  try {
    const story = await ask("story", player ? { ...one, at: now() } : one, own.signal);
    if (!player) ahead = Date.parse(story.now) / 1000 - Date.now() / 1000;
    document.title = plain(`${one.name}: ${story.description.phase || "new"}`);
    show(story);
    countDown(now());
  } catch (error) {
    if (own === reading && error.name !== "AbortError") fail(error);
  } finally {
    if (own === reading) {
      reading = undefined;
      if (again) readSoon();
    }
  }
}

/** Reads it soon, once for all that happens until then. */
function readSoon() {
  waiting ||= setTimeout(read, Math.max(0, SOONEST - (Date.now() - readAt)));
}

function say(text, problem = false) {
  byId("status").textContent = plain(text);
  byId("status").classList.toggle("problem", problem);
}

/** Follows a cluster while somebody looks on. */
function follow() {
  let events;
  const connect = () => {
    if (document.hidden || events) return;
    events = new EventSource("events");
    events.addEventListener("reset", () => {
      list.clear();
      say("loading the list");
    });
    events.addEventListener("change", (event) => {
      const change = JSON.parse(event.data);
      list.take(change.set, change.gone);
      if (change.problem) say(change.problem, true);
      else if (change.complete || change.problem === "") say("live");
      const one = chosen();
      const isIt = ([namespace, name]) => one && namespace === one.namespace && name === one.name;
      if (change.set.some((row) => isIt([row.namespace, row.name])) || change.gone.some(isIt)) readSoon();
    });
    events.addEventListener("error", () => say("the command has ended or cannot be reached", true));
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) {
      connect();
      readSoon();
    } else {
      events?.close();
      events = undefined;
    }
  });
  connect();
  setInterval(() => {
    if (!document.hidden && Date.now() - readAt > AGAIN) read();
  }, SOONEST);
}

/** Shows a recording at a moment, the last that was asked for. */
function playing(info) {
  let busy = false;
  let wanted;
  const move = async (second) => {
    wanted = second;
    if (busy) return;
    busy = true;
    try {
      while (wanted !== undefined) {
        const at = wanted;
        wanted = undefined;
        list.replace(await ask("rows", { at }));
        if (byId("queues").open) await queues();
        await (chosen() ? read() : undefined);
      }
      say("");
    } catch (error) {
      say(error.message, true);
    } finally {
      busy = false;
    }
  };
  player = new Player(info, move);
}

async function queues() {
  const body = byId("queue-body");
  try {
    const { queues: all, notes } = await ask("queues", player ? { at: now() } : {});
    const rows = all.flatMap((queue) => {
      const cells = queue.name ? [`${queue.namespace}/${queue.name}`, queue.clusterQueue, String(queue.pending), String(queue.admitted)] : ["(all)", queue.clusterQueue, "", ""];
      const resources = queue.resources.length ? queue.resources : [{ flavor: "", resource: "", reserved: "" }];
      return resources.map((it, n) => [
        ...(n ? ["", "", "", ""] : cells), [it.flavor, it.resource].filter(Boolean).join(" "), it.reserved,
        it.quota === undefined ? "" : `${it.all ?? "0"} of ${it.quota}`,
      ]);
    });
    const row = (tag, cells) => el("tr", {}, ...cells.map((cell) => el(tag, {}, cell)));
    const titles = ["Queue", "ClusterQueue", "Pending", "Admitted", "Resource", "Reserved by this queue", "Reserved by all queues"];
    const table = el("table", {}, el("thead", {}, row("th", titles)), el("tbody", {}, ...rows.map((cells) => row("td", cells))));
    const none = el("p", { class: "muted" }, "No queues.");
    body.replaceChildren(rows.length ? table : none, ...notes.map((note) => el("p", { class: "muted" }, note)));
  } catch (error) {
    body.replaceChildren(el("p", { class: "bad" }, error.message));
  }
}

addEventListener("hashchange", () => {
  const one = chosen();
  if (one) list.mark(one.namespace, one.name);
  read();
});
addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, select, textarea")) {
    event.preventDefault();
    byId("search").focus();
  }
  if (event.key === "Escape") byId("list").focus();
});
// the hash is the AppWrapper that is shown
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("list").focus();
});
byId("queues").addEventListener("toggle", () => byId("queues").open && queues());
setInterval(() => {
  countDown(now());
  list.tick();
}, 1000);
setInterval(() => !player && !document.hidden && byId("queues").open && queues(), AGAIN);

try {
  const info = await ask("info");
  byId("source").textContent = plain(info.title);
  if (info.mode === "played") playing(info);
  else follow();
  const one = chosen();
  if (one) {
    list.mark(one.namespace, one.name);
    if (!player) read();
  }
} catch (error) {
  say(error.message, true);
}
