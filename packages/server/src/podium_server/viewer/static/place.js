// The part of the address after the number sign names what is shown: #/runs/ID/1.0 is step 0 of round 1, and
// #/runs/ID/1.2[17] is item 17 of its step 2. What a page is asked for is behind a question mark, as in
// #/?status=failed, so that the address can be kept and sent.

import { useEffect, useState } from "./vendor/htm-preact.js";

let list = "#/";  // the latest list, with its filters

export function placeOf(hash) {
  const [path, asked = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map(decoded);
  const query = Object.fromEntries(new URLSearchParams(asked));
  if (parts[0] === "runs" && parts[1]) {
    const [round, ...step] = (parts[2] ?? "").split(".");
    return { page: "run", id: parts[1], step: parts[2] ? { name: parts[2], round: Number(round), step: step.join(".") } : null };
  }
  if (parts[0] === "compare" && parts[1] && parts[2]) return { page: "compare", ids: [parts[1], parts[2]] };
  if (["ask", "sums"].includes(parts[0])) return { page: parts[0], query };
  list = listHref(query);
  return { page: "runs", query };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export const runHref = (id) => `#/runs/${encodeURIComponent(id)}`;
export const stepHref = (id, round, step) => `${runHref(id)}/${round}.${encodeURIComponent(step)}`;
export const compareHref = (a, b) => `#/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}`;
export const listHref = (query = {}) => withQuery("#/", query);
export const askHref = (query = {}) => withQuery("#/ask", query);
export const sumsHref = (query = {}) => withQuery("#/sums", query);
export const lastList = () => list;

// Goes to an address in place of the current one, so that the way back skips it.
export function replacePlace(href) {
  history.replaceState(null, "", href);
  dispatchEvent(new Event("hashchange"));
}

export function usePlace() {
  const [place, setPlace] = useState(placeOf(location.hash));
  useEffect(() => {
    const changed = () => setPlace(placeOf(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return place;
}
