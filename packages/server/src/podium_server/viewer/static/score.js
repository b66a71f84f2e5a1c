// The plan of a round as a graph, which can be moved and zoomed.

import { line, seconds } from "./format.js";
import { useKeys } from "./keys.js";
import { HEIGHT, WIDTH, criticalPath, curve, placed } from "./layout.js";
import { glyph } from "./status.js";
import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";

const CLOSEST = 2.5;

export function Score({ run, round, at, href, hasKeys = true }) {
  const drawn = useMemo(() => placed(round), [round.plan, round.plan ? 0 : round.steps.length]);
  const path = criticalPath(round);
  const { box, view, fit, zoom, handlers } = useView(drawn);
  useKeys(hasKeys ? { f: fit, "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8) } : {});
  if (!drawn.nodes.length) return html`<div class="score empty"><${Unplanned} run=${run} round=${round} /></div>`;
  const isHot = (edge) => path.get(edge.to) === edge.from;
  return html`<div class="score" style=${{ height: `${Math.max(150, drawn.height + 40)}px` }}>
    <svg ref=${box} ...${handlers} role="group" aria-label=${`Plan of round ${round.number}`}>
      <g transform=${`translate(${view.x} ${view.y}) scale(${view.scale})`}>
        ${drawn.edges.map((edge) => html`<path key=${`${edge.from}-${edge.to}`} d=${curve(edge.points)}
          class=${`edge${isHot(edge) ? " hot" : ""}${edge.to === at || edge.from === at ? " near" : ""}`} />`)}
        ${drawn.nodes.map((node, index) => html`<${Node} key=${index} node=${node} number=${index} isAt=${index === at}
          isHot=${path.has(index)} href=${href(index)} ...${factsOf(run, round, index)} />`)}
      </g>
    </svg>
    <div class="tools">
      <button class="quiet" onClick=${() => zoom(0.8)} aria-label="Zoom out">−</button>
      <button class="quiet" onClick=${fit} title="Fit (f)">Fit</button>
      <button class="quiet" onClick=${() => zoom(1.25)} aria-label="Zoom in">+</button>
    </div>
  </div>`;
}

function factsOf(run, round, index) {
  const step = round.steps[index];
  const worker = step.worker ?? run.workers[round.plan?.steps[index]?.worker] ?? "";
  const took = step.outcome?.started != null ? seconds(step.outcome.ended - step.outcome.started) : "";
  return { status: step.status, worker, took, subtask: step.subtask ?? "" };
}

function Node({ node, number, status, worker, took, subtask, isAt, isHot, href }) {
  return html`<g class=${`node s-${status}${isHot ? " hot" : ""}${isAt ? " at" : ""}`}
    transform=${`translate(${node.x - WIDTH / 2} ${node.y - HEIGHT / 2})`}>
    <rect class="box" width=${WIDTH} height=${HEIGHT} rx="7" />
    <g aria-hidden="true">
      <svg x="10" y="9" width="14" height="14" viewBox="0 0 12 12">${glyph(status)}</svg>
      <text x="30" y="21" class="worker">${number} ${line(worker, 15)}</text>
      <text x=${WIDTH - 10} y="21" class="took">${took}</text>
      <text x="12" y="41" class="subtask">${line(subtask, 25)}</text>
    </g>
    <a href=${href} aria-label=${`Step ${number}, ${line(worker, 40)}, ${status}`}>
      <rect class="cover" width=${WIDTH} height=${HEIGHT} rx="7" />
    </a>
  </g>`;
}

function Unplanned({ run, round }) {
  if (round.isPlanning) return html`<p class="dim" role="status">The planner writes the plan.</p>`;
  if (run.status === "running") return html`<p class="dim" role="status">The round has begun.</p>`;
  return html`<p class="dim">The round has no plan.</p>`;
}

function useView(drawn) {
  const box = useRef(null);
  const drag = useRef(null);
  const [view, setView] = useState({ x: 0, y: 0, scale: 1 });
  const fit = () => {
    if (!box.current) return;
    const { clientWidth: width, clientHeight: height } = box.current;
    const scale = Math.min(1, width / drawn.width, height / drawn.height);
    setView({ scale, x: (width - drawn.width * scale) / 2, y: (height - drawn.height * scale) / 2 });
  };
  const zoom = (factor, x = box.current.clientWidth / 2, y = box.current.clientHeight / 2) => setView((now) => {
    const scale = Math.min(CLOSEST, Math.max(0.05, now.scale * factor));
    const by = scale / now.scale;
    return { scale, x: x - (x - now.x) * by, y: y - (y - now.y) * by };
  });
  useEffect(() => {
    fit();
    if (!box.current) return;
    const watch = new ResizeObserver(fit);
    watch.observe(box.current);
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
    };
    box.current.addEventListener("wheel", wheel, { passive: false });
    return () => watch.disconnect();
  }, [drawn]);
  const handlers = {
    onPointerDown: (event) => (drag.current = { x: event.clientX - view.x, y: event.clientY - view.y }),
    onPointerMove: (event) => {
      if (drag.current === null || !(event.buttons & 1)) return;
      setView({ ...view, x: event.clientX - drag.current.x, y: event.clientY - drag.current.y });
    },
    onPointerUp: () => (drag.current = null),
    onDragStart: (event) => event.preventDefault(),
  };
  return { box, view, fit, zoom, handlers };
}
