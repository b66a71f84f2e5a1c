// The part of the address after the number sign names what is shown: #/runs/ID/1.0 is step 0 of round 1,
// and #/runs/ID/1.2[17] is item 17 of its step 2.

import { useEffect, useState } from "./vendor/htm-preact.js";

export function placeOf(hash) {
  const parts = hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (parts[0] === "runs" && parts[1]) {
    const [round, ...step] = (parts[2] ?? "").split(".");
    return { page: "run", id: parts[1], step: parts[2] ? { name: parts[2], round: Number(round), step: step.join(".") } : null };
  }
  if (parts[0] === "compare" && parts[1] && parts[2]) return { page: "compare", ids: [parts[1], parts[2]] };
  return { page: "runs" };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const runHref = (id) => `#/runs/${encodeURIComponent(id)}`;
export const stepHref = (id, round, step) => `${runHref(id)}/${round}.${encodeURIComponent(step)}`;
export const compareHref = (a, b) => `#/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}`;

export function usePlace() {
  const [place, setPlace] = useState(placeOf(location.hash));
  useEffect(() => {
    const changed = () => setPlace(placeOf(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return place;
}
