// The box of a step in the graph of a plan.

import { line, seconds } from "./format.js";
import { HEIGHT, WIDTH } from "./layout.js";
import { glyph } from "./status.js";
import { html } from "./vendor/htm-preact.js";

export function Node({ node, run, round, index, isAt, isHot, href }) {
  const step = round.steps[index];
  const { status, attempts, outcome } = step;
  const asked = run.workers[round.plan?.steps[index]?.worker] ?? "";
  const worker = step.worker ?? asked;
  const isFallback = asked && worker !== asked;
  const calls = attempts.length > 1 ? `${attempts.length} calls` : "";
  const name = isFallback ? `${line(asked, 30)} → ${line(worker, 30)}` : line(worker, 40);
  const told = [`Step ${index}`, line(worker, 40), status, isFallback && `in place of ${line(asked, 40)}`, calls];
  return html`<g class=${`node s-${status}${isHot ? " hot" : ""}${isAt ? " at" : ""}`}
    transform=${`translate(${node.x - WIDTH / 2} ${node.y - HEIGHT / 2})`}>
    <rect class="box" width=${WIDTH} height=${HEIGHT} rx="7" />
    <g aria-hidden="true">
      <foreignObject width=${WIDTH} height=${HEIGHT}><div class="inside">
        <div><svg class="sign" viewBox="0 0 12 12">${glyph(status)}</svg><b class="cut">${index} ${name}</b>
          <span class="dim">${outcome?.started != null && !isFallback && seconds(outcome.ended - outcome.started)}</span></div>
        <div><span class="cut dim">${line(step.subtask ?? "", 60)}</span><span class="calls">${calls}</span></div>
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
