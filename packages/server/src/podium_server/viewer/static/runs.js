// The page with the list of runs: filters, marks for a comparison, and a window of rows.

import { get, listRuns, runPath, tellChange, useModels } from "./api.js";
import { exactly, line, seconds, shortId, usd, when } from "./format.js";
import { useKeys } from "./keys.js";
import { compareHref, listHref, replacePlace, runHref } from "./place.js";
import { Badge } from "./status.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";

const ROW = 45;
const STATES = ["queued", "running", "waiting", "ok", "partial", "failed", "stopped", "dead"];
const DAY = 86400;
const PERIODS = [["1", "last 24 hours"], ["7", "last 7 days"], ["30", "last 30 days"]];
const CHIPS = ["label", "day", "key"];  // filters that links set, and that only can be removed
const REFRESH = 2000;
const MOST_EMPTY = 5;
const EMPTY = { runs: [], next: null, state: "loading", error: null };

let kept = { top: 0, marked: [], filters: "" };

// The filters are in the address.
export function Runs({ query, canAsk }) {
  const [models] = useModels(canAsk);
  const [asked, setAsked] = useState(query.search ?? "");
  const [marked, setMarked] = useState(kept.marked);
  const [at, setAt] = useState(-1);
  const search = useRef(null);
  const wanted = useMemo(() => wantedOf(query), [JSON.stringify(query)]);
  const list = useRunList(wanted);
  const name = JSON.stringify(query);
  if (name !== kept.filters) kept = { ...kept, top: 0, filters: name };
  const change = (changed) => replacePlace(listHref({ ...query, ...changed }));
  useEffect(() => {
    document.title = "Runs · Podium";
    const timer = setTimeout(() => asked !== (query.search ?? "") && change({ search: asked }), 250);
    return () => clearTimeout(timer);
  }, [asked]);
  useEffect(() => setAsked(query.search ?? ""), [query.search]);
  const mark = (id) => setMarked((kept.marked = marked.includes(id) ? marked.filter((each) => each !== id) : [...marked, id].slice(-2)));
  const move = (by) => setAt(Math.max(0, Math.min(at + by, list.runs.length - 1)));
  useKeys({
    j: () => move(1), k: () => move(-1), "/": () => search.current.focus(),
    Enter: () => list.runs[at] && (location.hash = runHref(list.runs[at].id)),
    C: () => marked.length === 2 && (location.hash = compareHref(...marked)),
    c: () => list.runs[at] && mark(list.runs[at].id),
  });
  const names = [...new Set([...(query.model ? [query.model] : []), ...(models ?? []).map((each) => each.id)])];
  const chips = CHIPS.filter((each) => query[each]);
  return html`<div class="list">
    <div class="bar" role="search">
      <h1>Runs</h1>
      <input ref=${search} type="search" aria-label="Search in questions, models and ids" value=${asked}
        placeholder="Search in questions, models and ids" onInput=${(event) => setAsked(event.target.value)} />
      <select aria-label="Status" value=${query.status ?? ""} onChange=${(event) => change({ status: event.target.value })}>
        <option value="">all statuses</option>
        ${STATES.map((each) => html`<option value=${each}>${each}</option>`)}
      </select>
      ${names.length > 0 && html`<select aria-label="Model" value=${query.model ?? ""} onChange=${(event) => change({ model: event.target.value })}>
        <option value="">all models</option>${names.map((each) => html`<option value=${each}>${line(each, 40)}</option>`)}
      </select>`}
      <select aria-label="Time" value=${query.days ?? ""} onChange=${(event) => change({ days: event.target.value, day: "" })}>
        <option value="">any time</option>
        ${PERIODS.map(([each, words]) => html`<option value=${each}>${words}</option>`)}
      </select>
      ${chips.map((each) => html`<button class="chip" aria-label=${`Remove the filter ${each} ${query[each]}`} onClick=${() => change({ [each]: "" })}>${each} ${line(query[each], 30)} ×</button>`)}
      ${marked.length === 2
        ? html`<a class="button main" title="Compare the two runs (C)" href=${compareHref(...marked)}>Compare the two runs</a>`
        : marked.length === 1 && html`<span class="dim">Mark another run to compare.</span>`}
    </div>
    ${list.error && html`<p class="bad banner" role="alert">${list.error.message}</p>`}
    <${Rows} list=${list} at=${at} marked=${marked} mark=${mark} isFiltered=${Object.keys(wanted).length > 0} canAsk=${canAsk} />
  </div>`;
}

// The parameters of the list for the filters of the address.
function wantedOf({ search, status, model, label, key, day, days }) {
  const wanted = { search, status, model, label, key };
  const start = Date.parse(day) / 1000;
  if (!Number.isNaN(start)) Object.assign(wanted, { since: start, until: start + DAY - 0.001 });
  else if (Number(days) > 0) wanted.since = Math.floor(Date.now() / 1000 - Number(days) * DAY);
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value));
}

function Rows({ list, at, marked, mark, isFiltered, canAsk }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: kept.top, height: 800 });
  const measure = () => {
    kept.top = box.current.scrollTop;
    setView({ top: kept.top, height: box.current.clientHeight });
  };
  useEffect(() => {
    if (!box.current) return;
    box.current.scrollTop = kept.top;
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, [list.runs.length === 0]);
  useEffect(() => {
    if (at < 0 || !box.current) return;
    const { scrollTop, clientHeight } = box.current;
    if (at * ROW < scrollTop) box.current.scrollTop = at * ROW;
    else if ((at + 1) * ROW > scrollTop + clientHeight) box.current.scrollTop = (at + 1) * ROW - clientHeight;
  }, [at]);
  const first = Math.max(0, Math.floor(view.top / ROW) - 8);
  const last = Math.min(list.runs.length, Math.ceil((view.top + view.height) / ROW) + 8);
  const isNear = last + 20 >= list.runs.length;
  useEffect(() => {
    if (isNear && list.next !== null) list.more();
  }, [isNear, list.runs.length]);
  if (!list.runs.length) return html`<${Empty} list=${list} isFiltered=${isFiltered} canAsk=${canAsk} />`;
  return html`<div class="row head" aria-hidden="true">
    <span></span><span>status</span><span>question</span><span>model</span><span class="number">cost</span><span class="number">time</span><span>began</span>
  </div>
  <div class="rows" ref=${box} onScroll=${measure} tabindex="0" aria-label="Runs">
    <div class="space" role="table" aria-label="Runs" aria-rowcount=${list.next === null ? list.runs.length : -1}
      style=${{ height: `${list.runs.length * ROW}px` }}>
      <div role="rowgroup" style=${{ transform: `translateY(${first * ROW}px)` }}>
        ${list.runs.slice(first, last).map((run, index) => html`<${Row} key=${run.id} run=${run} number=${first + index}
          isAt=${first + index === at} isMarked=${marked.includes(run.id)} mark=${mark} />`)}
      </div>
    </div>
    ${list.next !== null && html`<p class="more"><button class="quiet" onClick=${() => list.more()}>Load older runs</button></p>`}
  </div>`;
}

function Row({ run, number, isAt, isMarked, mark }) {
  const took = run.ended && run.status !== "running" ? seconds(run.ended - run.created) : "";
  return html`<div class=${`row${isAt ? " at" : ""}`} role="row" aria-rowindex=${number + 1}>
    <span role="cell"><input type="checkbox" aria-label=${`Mark run ${shortId(run.id)}`} checked=${isMarked}
      onChange=${() => mark(run.id)} /></span>
    <span role="cell"><${Badge} status=${run.status} /></span>
    <span role="cell"><a class="question" href=${runHref(run.id)}>${line(run.question) || "(no question)"}</a></span>
    <span role="cell" class="dim">${line(run.model, 30)}</span>
    <span role="cell" class="number">${run.cost === null ? "" : usd(run.cost)}</span>
    <span role="cell" class="number dim">${took}</span>
    <time role="cell" class="dim" title=${exactly(run.created)}>${when(run.created)}</time>
  </div>`;
}

function Empty({ list, isFiltered, canAsk }) {
  if (list.state === "loading") return html`<p class="note" role="status">Loading the runs…</p>`;
  if (list.state === "error") return html`<p class="note"><button onClick=${() => list.more(true)}>Try again</button></p>`;
  if (list.next !== null) {
    return html`<div class="note"><p>None of the newest runs fits.</p><button onClick=${() => list.more()}>Search older runs</button></div>`;
  }
  if (isFiltered) return html`<p class="note">No run fits the filters. <a href="#/">Show all runs</a></p>`;
  return html`<div class="note"><h2>No runs yet</h2>
    ${canAsk && html`<p><a class="button main" href="#/ask">Ask a question</a></p>`}
    <p>A run appears here when a client sends a request to <code>${location.origin}/v1</code>.</p></div>`;
}

// The list of runs: pages, new runs, and runs that have changed.

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
