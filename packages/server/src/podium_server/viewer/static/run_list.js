// The list of runs: pages, new runs, and runs that have changed.

import { get, listRuns, runPath } from "./api.js";
import { tellChange } from "./changes.js";
import { useCallback, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const REFRESH = 2000;
const MOST_EMPTY = 5;
const EMPTY = { runs: [], next: null, state: "loading", error: null };

export function useRunList(filters) {
  const [list, setList] = useState(EMPTY);
  const current = useRef(list);
  const busy = useRef(null);
  const name = JSON.stringify(filters);
  const set = (changed) => setList((current.current = { ...current.current, ...changed }));

  // Loads the next page; a search may look at pages on which nothing fits.
  const more = useCallback(async (isFirst = false) => {
    if (!isFirst && (busy.current || current.current.next === null)) return;
    const signal = (busy.current = new AbortController()).signal;
    try {
      let after = isFirst ? null : current.current.next;
      for (let pages = 0; pages < MOST_EMPTY; pages += 1) {
        const page = await listRuns(JSON.parse(name), after, 100, signal);
        if (signal.aborted) return;
        set({ runs: merged(current.current.runs, page.data), next: page.next, state: "ready", error: null });
        if (page.data.length || page.next === null) break;
        after = page.next;
      }
    } catch (error) {
      if (!signal.aborted) set({ state: "error", error });
    } finally {
      if (busy.current?.signal === signal) busy.current = null;
    }
  }, [name]);

  useEffect(() => {
    set(EMPTY);
    more(true);
    const refresh = async () => {
      if (document.hidden || current.current.state === "loading") return;
      try {
        const page = await listRuns(JSON.parse(name), null, 50);
        const seen = new Set(page.data.map((each) => each.id));
        const stale = current.current.runs.filter((each) => ["queued", "running"].includes(each.status) && !seen.has(each.id));
        const changed = await Promise.all(stale.slice(0, 5).map((each) => get(runPath(each.id))));
        const runs = merged(current.current.runs, [...page.data, ...changed]);
        if (!timer.isOn) return;
        const statuses = new Map(current.current.runs.map((each) => [each.id, each.status]));
        if (runs.some((each) => each.status !== statuses.get(each.id))) tellChange();
        set({ runs, error: null, state: "ready" });
      } catch (error) {
        if (timer.isOn) set({ error });
      }
    };
    const timer = { isOn: true, id: setInterval(refresh, REFRESH) };
    return () => {
      timer.isOn = false;
      clearInterval(timer.id);
      busy.current?.abort();
    };
  }, [name]);
  return { ...list, more };
}

// Returns the runs with the changed ones, the newest first, in the order of the server.
function merged(runs, changed) {
  const known = new Map(runs.map((each) => [each.id, each]));
  let isNew = false;
  for (const each of changed) {
    isNew ||= !known.has(each.id);
    known.set(each.id, each);
  }
  const all = [...known.values()];
  return isNew ? all.sort((a, b) => b.created - a.created || (a.id < b.id ? -1 : 1)) : all;
}
