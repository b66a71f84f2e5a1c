// What a run has spent, beside its limits.

import { statusOf } from "./executions.js";
import { costOf, nameOf, stepsOf, tokensOf } from "./fold.js";
import { count, elapsed, seconds, usd } from "./format.js";
import { html } from "./vendor/htm-preact.js";

export function Gauges({ run }) {
  const limits = run.limits ?? {};
  const used = tokensOf(run);
  const all = run.rounds.flatMap((round) => round.steps);
  const begun = run.rounds.flatMap((round) => stepsOf(round).filter((step) => step.attempts.length).map((step) => `${round.number}.${nameOf(step).replace(/\[[^\]]*\]|\([^)]*\)/g, "")}`));
  const skipped = all.filter((step) => statusOf(run, step) === "skipped").length;
  return html`<div class="gauges">
    <${Gauge} name="cost" value=${run.cost ?? costOf(run)} most=${limits.cost} write=${usd} />
    <${Gauge} name="calls" value=${run.calls} most=${limits.calls} write=${count} />
    <${Gauge} name="steps" value=${new Set(begun).size} most=${limits.steps} write=${count}
      more=${skipped ? `, ${count(skipped)} skipped` : ""} />
    <${Gauge} name="tokens read" value=${used.input} most=${limits.input_tokens} write=${count} />
    <${Gauge} name="tokens written" value=${used.output} most=${limits.output_tokens} write=${count} />
    <${Gauge} name="time" value=${run.now} most=${limits.seconds} write=${run.status === "running" ? elapsed : seconds} />
  </div>`;
}

function Gauge({ name, value, most, write, more }) {
  const told = value === null ? "unknown" : write(value) || "0 s";
  const has = most !== null && most !== undefined;
  return html`<div class="gauge"><span class="dim">${name}</span> <b>${told}</b>${has && html` <span class="dim">of ${write(most)}</span>`}<span class="dim">${more}</span>
    ${has && html`<meter min="0" max=${most} high=${0.8 * most} value=${value ?? 0} aria-label=${`${name}: ${told} of ${write(most)}`}></meter>`}
  </div>`;
}
