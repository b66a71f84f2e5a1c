// The box of a step in the graph of a plan.

import { elapsed, line, seconds } from "./format.js";
import { countsOf, partOf, rulesOf, statusOf } from "./executions.js";
import { endOf } from "./fold.js";
import { HEIGHT, WIDTH } from "./layout.js";
import { ENDS, glyph } from "./status.js";
import { html } from "./vendor/htm-preact.js";

const CONDITIONS = ["condition", "no_branch"];  // why a step does not run although nothing has failed

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
