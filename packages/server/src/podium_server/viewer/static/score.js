// The plan of a round as a graph, which can be scrolled and zoomed.

import { countsOf, partOf, rulesOf, statusOf } from "./executions.js";
import { endOf, planned } from "./fold.js";
import { elapsed, line, seconds } from "./format.js";
import { useKeys } from "./keys.js";
import { criticalPath, HEIGHT, placed, WIDTH } from "./layout.js";
import { ENDS, glyph } from "./status.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";

const NARROW = 520;  // below this width in pixels, the plan is drawn from the top down
const FAR = 0.7;  // below this scale, a step shows its number only
const CONDITIONS = ["condition", "no_branch"];  // why a step does not run although nothing has failed
const CLOSEST = 2.5;
const READABLE = 0.92;  // the smallest text has 11 px; at this scale, it has 10 px
const MOST_HIGH = 0.56;  // of the window
const SETTLED = 300;  // milliseconds without an event

export function Score(props) {
  const { run, round } = props;
  if (!round.plan?.steps.length && !round.steps.length) return html`<div class="score empty"><${Unplanned} run=${run} round=${round} /></div>`;
  return html`<${Plan} ...${props} />`;
}

function Plan({ run, round, at, href, hasKeys = true }) {
  const box = useRef(null);
  const space = useSpace(box);
  const isDown = space.width < NARROW;
  const drawn = useMemo(() => placed(round, isDown), [round.plan, round.plan ? 0 : round.steps.length, round.draft.length, isDown]);
  const path = criticalPath(round, run.now);
  const { scale, zoom, fit, isWhole } = useZoom(box, space, drawn);
  const working = planned(round).findIndex((step) => statusOf(run, step) === "running");
  const handlers = useScroll(box, space, drawn, scale, at, { working, seen: run.seen });
  useKeys(hasKeys ? { f: fit, "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8) } : {});
  const isHot = (edge) => path.get(edge.to) === edge.from;
  return html`<div class="score">
    <div class="window" ref=${box} ...${handlers} style=${{ maxHeight: `${space.height}px` }}>
      <svg role="group" aria-label=${`Plan of round ${round.number}`} class=${scale < FAR ? "far" : "near"}
        width=${Math.floor(drawn.width * scale)} height=${Math.floor(drawn.height * scale)} viewBox=${`0 0 ${drawn.width} ${drawn.height}`}>
        ${drawn.edges.map((edge) => html`<path key=${`${edge.from}-${edge.to}`} d=${edge.path}
          class=${`edge${isHot(edge) ? " hot" : ""}${edge.to === at || edge.from === at ? " near" : ""}`} />`)}
        ${drawn.nodes.map((node, index) => html`<${Node} key=${index} node=${node} run=${run} round=${round} index=${index}
          isAt=${index === at} isHot=${path.has(index)} href=${href(index)} />`)}
      </svg>
    </div>
    <div class="tools">
      <span class="dim">${drawn.nodes.length} ${drawn.nodes.length === 1 ? "step" : "steps"}${!isWhole && "; scroll, or fit, to see all"}</span>
      <button class="quiet" onClick=${() => zoom(0.8)} aria-label="Zoom out">−</button>
      <button class="quiet" onClick=${fit} title="Fit (f)">Fit</button>
      <button class="quiet" onClick=${() => zoom(1.25)} aria-label="Zoom in">+</button>
    </div>
  </div>`;
}

function Unplanned({ run, round }) {
  if (round.isPlanning) return html`<p class="dim" role="status">The planner writes the plan.</p>`;
  if (run.status === "running") return html`<p class="dim" role="status">The round has begun.</p>`;
  return html`<p class="dim">The round has no plan.</p>`;
}

// The box of a step in the graph of a plan.

export function Node({ node, run, round, index, isAt, isHot, href }) {
  const step = round.steps[index];
  const { attempts, outcome } = step;
  const status = statusOf(run, step);
  const { asked, worker, isFallback, name } = workersOf(run, round, step);
  const calls = attempts.length > 1 ? `${attempts.length} calls` : "";
  const took = html`<span class="took dim">${timeOf(step, status, run.now)}</span>`;  // two names need the whole first line
  const end = endOf(run, step);
  const acts = step.acts && `action${end ? `: ${ENDS[end]}` : step.approval?.state === "asked" ? ": waits for approval" : ""}`;
  const counts = countsOf(round, step);
  const rule = rulesOf(round.plan?.steps[index] ?? {})[0]?.split(" ")[0];
  const skipped = CONDITIONS.includes(outcome?.problem?.code) && status === "skipped" && line(outcome.problem.message, 60);
  const told = [`Step ${index}`, line(worker, 40), status, counts, skipped, isFallback && `in place of ${line(asked, 40)}`, calls, acts];
  return html`<g class=${`node s-${status}${isHot ? " hot" : ""}${isAt ? " at" : ""}`}
    transform=${`translate(${node.x - WIDTH / 2} ${node.y - HEIGHT / 2})`}>
    <rect class="box" width=${WIDTH} height=${HEIGHT} rx="7" />
    <g aria-hidden="true">
      <foreignObject width=${WIDTH} height=${HEIGHT}><div class="inside">
        <div><svg class="sign" viewBox="0 0 12 12">${glyph(status)}</svg><b class="cut">${index} ${name}</b>${step.acts && html`<b class="acts">!</b>`}
          ${!isFallback && took}</div>
        <div>${rule && !counts && !skipped && html`<i class="dim">${rule}</i>`}<span class="cut dim">${counts || skipped || line(step.subtask ?? "", 60)}</span><span class="calls">${calls}</span>${isFallback && took}</div>
      </div></foreignObject>
      <svg class="sign-far" x="24" y="9" width="34" height="34" viewBox="0 0 12 12">${glyph(status)}</svg>
      <text x="76" y="38" class="number-far">${index}</text>
    </g>
    <a href=${href} aria-label=${told.filter(Boolean).join(", ")}>
      <title>${told.filter(Boolean).join(", ")}</title>
      <rect class="cover" width=${WIDTH} height=${HEIGHT} rx="7" />
    </a>
  </g>`;
}

// The worker of the plan, the worker that was called, and both as a text.
export function workersOf(run, round, step) {
  const planned = partOf(round, step).step;
  const block = planned?.steps && (planned.until ? "loop" : "block");
  const asked = block ?? run.workers[planned?.worker] ?? "";
  const worker = block ?? step.worker ?? asked;
  const isFallback = asked !== "" && worker !== asked;
  return { asked, worker, isFallback, name: isFallback ? `${line(asked, 30)} → ${line(worker, 30)}` : line(worker, 40) };
}

function timeOf({ started, outcome }, status, now) {
  if (outcome !== null) return outcome.started == null ? "" : seconds(outcome.ended - outcome.started);
  return status === "running" && started !== null ? elapsed(Math.max(0, now - started)) : "";
}

// The part of a plan that is in its window: how large it is drawn, and where it is scrolled to.

// The space that a plan has in pixels.
export function useSpace(box) {
  const [space, setSpace] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const measure = () => setSpace({ width: box.current.offsetWidth, height: Math.max(180, MOST_HIGH * innerHeight) });
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    watch.observe(document.documentElement);
    measure();
    return () => watch.disconnect();
  }, []);
  return space;
}

export function useZoom(box, space, drawn) {
  const [chosen, setChosen] = useState("readable");
  const anchor = useRef(null);
  const whole = Math.min(1, space.width / drawn.width, space.height / drawn.height);
  const scale = { readable: Math.max(READABLE, whole), whole }[chosen] ?? chosen;
  const zoom = (factor, x = box.current.clientWidth / 2, y = box.current.clientHeight / 2) => {
    anchor.current = { x, y, left: (box.current.scrollLeft + x) / scale, top: (box.current.scrollTop + y) / scale };
    setChosen(Math.min(CLOSEST, Math.max(0.05, scale * factor)));
  };
  const latest = useRef(zoom);
  latest.current = zoom;
  useLayoutEffect(() => {
    if (anchor.current === null) return;
    const { x, y, left, top } = anchor.current;
    box.current.scrollTo(left * scale - x, top * scale - y);
    anchor.current = null;
  }, [scale]);
  useEffect(() => {
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { left, top } = box.current.getBoundingClientRect();
      latest.current(Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top);
    };
    box.current.addEventListener("wheel", wheel, { passive: false });
  }, []);
  return { scale, zoom, fit: () => setChosen("whole"), isWhole: scale <= whole };
}

// Shows the chosen step. Without one, it shows the first step, and follows the step at work until the person scrolls.
export function useScroll(box, space, drawn, scale, at, { working, seen }) {
  const mover = useRef(null);
  const drag = useRef(null);
  const show = (index, by) => {
    const node = drawn.nodes[index];
    if (!node || !space.width) return;
    mover.current = by;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = box.current;
    const place = by === null ? centred : nearest;
    box.current.scrollTo(
      place(scrollLeft, clientWidth, node.x * scale, WIDTH * scale),
      place(scrollTop, clientHeight, node.y * scale, HEIGHT * scale),
    );
  };
  useLayoutEffect(() => {
    if (at !== undefined) show(at, "person");
    else if (mover.current === null) show(0, null);
  }, [at, drawn, space.width]);
  useEffect(() => {
    if (working < 0 || mover.current === "person") return;
    // The events of a run that was recorded come at once: its steps are not followed.
    const timer = setTimeout(() => mover.current !== "person" && show(working, "work"), SETTLED);
    return () => clearTimeout(timer);
  }, [seen, working, drawn, space.width]);
  return {
    onWheel: () => (mover.current = "person"),
    onPointerDown: (event) => {
      mover.current = "person";
      drag.current = { x: event.clientX + box.current.scrollLeft, y: event.clientY + box.current.scrollTop };
    },
    onPointerMove: (event) => {
      if (drag.current === null || event.pointerType !== "mouse" || !(event.buttons & 1)) return;
      box.current.scrollTo(drag.current.x - event.clientX, drag.current.y - event.clientY);
    },
    onPointerUp: () => (drag.current = null),
    onDragStart: (event) => event.preventDefault(),
  };
}

// Where to scroll so that a box is in the window; a box that is in it does not move.
function nearest(scroll, most, middle, long) {
  const isIn = middle - long / 2 >= scroll && middle + long / 2 <= scroll + most;
  return isIn ? scroll : centred(scroll, most, middle);
}

const centred = (_, most, middle) => middle - most / 2;
