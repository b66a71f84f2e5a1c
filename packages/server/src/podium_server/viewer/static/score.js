// The plan of a round as a graph, which can be scrolled and zoomed.

import { statusOf } from "./executions.js";
import { planned } from "./fold.js";
import { useKeys } from "./keys.js";
import { criticalPath, placed } from "./layout.js";
import { Node } from "./node.js";
import { html, useMemo, useRef } from "./vendor/htm-preact.js";
import { useScroll, useSpace, useZoom } from "./view.js";

const NARROW = 520;  // below this width in pixels, the plan is drawn from the top down
const FAR = 0.7;  // below this scale, a step shows its number only

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
