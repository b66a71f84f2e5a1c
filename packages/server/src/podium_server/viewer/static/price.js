// What a plan is expected to cost, before it is approved or carried out again. The server calls no worker for it.

import { post, runPath } from "./api.js";
import { count, line, seconds, usd } from "./format.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

const SETTLED = 500;  // milliseconds without a change of the plan

// `plan` is a changed plan; null for the plan of the last round.
export function Price({ run, plan = null, isValid = true }) {
  const [found, setFound] = useState({ state: "loading" });
  const body = plan === null ? {} : { plan };
  const name = JSON.stringify(body);
  useEffect(() => {
    if (!isValid) return undefined;
    let isOn = true;
    const look = () => post(runPath(run.id, "/forecast"), JSON.parse(name)).then(
      (told) => isOn && setFound({ state: "ready", told }),
      (error) => isOn && setFound({ state: "error", error }),
    );
    const timer = setTimeout(look, plan === null ? 0 : SETTLED);
    return () => {
      isOn = false;
      clearTimeout(timer);
    };
  }, [run.id, name, isValid]);
  if (found.state === "loading") return html`<p class="dim price" role="status">Estimating the price…</p>`;
  if (found.state === "error") return html`<p class="bad price" role="status">There is no price: ${line(found.error.message, 300)}</p>`;
  const { plan: whole, resumed } = found.told;
  return html`<div class="price" role="status">
    ${whole && html`<p>Expected: ${amount(whole.cost, usd)}, ${amount(whole.calls, (each) => count(Math.round(each)))} calls, ${amount(whole.seconds, seconds)}.${whole.actions > 0 && ` It acts in ${count(whole.actions)} ${whole.actions === 1 ? "step" : "steps"}.`}
      ${whole.guessed.length > 0 && html` <span class="dim">Assumed for ${line(whole.guessed.join(", "), 200)}, which ${whole.guessed.length === 1 ? "has" : "have"} few recorded calls.</span>`}</p>`}
    ${resumed.results > 0 && html`<p>${kept(resumed)}</p>`}
  </div>`;
}

function amount(interval, write) {
  if (interval === null) return "an unknown cost";
  const { low, likely, high } = interval;
  if (write(low) === write(high)) return write(high);
  return `${write(low)} to ${write(high)}${likely === null ? "" : ` (likely ${write(likely)})`}`;
}

function kept({ results, cost, calls, expected_cost: expected, unlisted }) {
  const left = calls ? `${unlisted.length ? "at least " : ""}${count(calls)} ${calls === 1 ? "call is" : "calls are"} left, ${expected === null ? "of unknown cost" : `about ${usd(expected)}`}` : "nothing is called again";
  return `${count(results)} recorded ${results === 1 ? "result" : "results"}${cost === null ? "" : ` (${usd(cost)})`} ${results === 1 ? "is" : "are"} kept; ${left}.`;
}
