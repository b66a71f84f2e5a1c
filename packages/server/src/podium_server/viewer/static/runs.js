// The page with the list of runs: filters, marks for a comparison, and a window of rows.

import { exactly, line, seconds, shortId, usd, when } from "./format.js";
import { useKeys } from "./keys.js";
import { compareHref, runHref } from "./place.js";
import { useRunList } from "./run_list.js";
import { Badge } from "./status.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const ROW = 45;
const STATES = ["queued", "running", "waiting", "ok", "partial", "failed", "stopped", "dead"];
let kept = { search: "", status: "", top: 0, marked: [] };

export function Runs() {
  const [filters, setFilters] = useState(kept);
  const [asked, setAsked] = useState(kept.search);
  const [at, setAt] = useState(-1);
  const { marked } = filters;
  const search = useRef(null);
  const list = useRunList({ search: filters.search, status: filters.status });
  const change = (changed) => setFilters((kept = { ...kept, ...changed }));
  useEffect(() => {
    document.title = "Runs · Podium";
    const timer = setTimeout(() => asked !== kept.search && change({ search: asked }), 250);
    return () => clearTimeout(timer);
  }, [asked]);
  const mark = (id) => change({ marked: marked.includes(id) ? marked.filter((each) => each !== id) : [...marked, id].slice(-2) });
  const move = (by) => setAt(Math.max(0, Math.min(at + by, list.runs.length - 1)));
  useKeys({
    j: () => move(1), k: () => move(-1), "/": () => search.current.focus(),
    Enter: () => list.runs[at] && (location.hash = runHref(list.runs[at].id)),
    C: () => marked.length === 2 && (location.hash = compareHref(...marked)),
    c: () => list.runs[at] && mark(list.runs[at].id),
  });
  return html`<div class="list">
    <div class="bar" role="search">
      <h1>Runs</h1>
      <input ref=${search} type="search" aria-label="Search in questions, models and ids" value=${asked}
        placeholder="Search in questions, models and ids" onInput=${(event) => setAsked(event.target.value)} />
      <select aria-label="Status" value=${filters.status} onChange=${(event) => change({ status: event.target.value })}>
        <option value="">all statuses</option>
        ${STATES.map((each) => html`<option value=${each}>${each}</option>`)}
      </select>
      ${marked.length === 2
        ? html`<a class="button main" title="Compare the two runs (C)" href=${compareHref(...marked)}>Compare the two runs</a>`
        : marked.length === 1 && html`<span class="dim">Mark another run to compare.</span>`}
    </div>
    ${list.error && html`<p class="bad banner" role="alert">${list.error.message}</p>`}
    <${Rows} list=${list} at=${at} marked=${marked} mark=${mark} isFiltered=${filters.search || filters.status} />
  </div>`;
}

function Rows({ list, at, marked, mark, isFiltered }) {
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
  if (!list.runs.length) return html`<${Empty} list=${list} isFiltered=${isFiltered} />`;
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

function Empty({ list, isFiltered }) {
  if (list.state === "loading") return html`<p class="note" role="status">Loading the runs…</p>`;
  if (list.state === "error") return html`<p class="note"><button onClick=${() => list.more(true)}>Try again</button></p>`;
  if (list.next !== null) {
    return html`<div class="note"><p>None of the newest runs fits.</p><button onClick=${() => list.more()}>Search older runs</button></div>`;
  }
  if (isFiltered) return html`<p class="note">No run fits the search and the status.</p>`;
  return html`<div class="note"><h2>No runs yet</h2>
    <p>A run appears here when a client sends a request to <code>${location.origin}/v1</code>.</p></div>`;
}
