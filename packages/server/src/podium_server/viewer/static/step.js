// The panel of one step: its subtask, what its worker was shown and was not, its output, calls and bill.

import { get, runPath } from "./api.js";
import { Asked, Ending } from "./approval.js";
import { From } from "./change.js";
import { countsOf, inOrder, partOf, rulesOf, statusOf } from "./executions.js";
import { endOf, nameOf } from "./fold.js";
import { count, line, seconds, shortId, tokens, usd, visible } from "./format.js";
import { runHref, stepHref } from "./place.js";
import { workersOf } from "./score.js";
import { Badge, ENDS } from "./status.js";
import { Text, Trouble } from "./text.js";
import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";

const MOST_ROWS = 200;
const BELOW = "(max-width: 900px)";  // as in style.css: the panel is below the plan

// Moves the focus to a panel that is below the plan, and back when it is closed.
function useArrival(panel) {
  useEffect(() => {
    if (!matchMedia(BELOW).matches) return undefined;
    const from = document.activeElement;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    panel.current.focus({ preventScroll: true });
    panel.current.scrollIntoView({ behavior: isStill ? "instant" : "smooth" });
    return () => from.isConnected && from.focus();
  }, []);
}

export function StepPanel({ run, round, step, close, readsOnly, onDone }) {
  const panel = useRef(null);
  useArrival(panel);
  const outcome = step.outcome;
  const name = nameOf(step);
  const isCheck = round.plan && !step.parent && step.index >= round.plan.steps.length;
  const { step: planned, isMap } = partOf(round, step);
  const isPart = step.parent !== null;
  const isWhole = isMap || Boolean(planned?.steps);
  const rules = planned && !isPart ? rulesOf(planned) : [];
  return html`<aside class="panel" ref=${panel} tabindex="-1" aria-label=${`Step ${name}`}>
    <header><h2>${isCheck ? "Check of the answer" : `Step ${name}`} <span class="dim">${workersOf(run, round, step).name}</span></h2>
      <${Badge} status=${statusOf(run, step)} />
      <a class="button quiet" href=${close} aria-label="Close the step">Close</a></header>
    ${isPart && html`<p class="crumbs">Inside of <a href=${stepHref(run.id, round.number, nameOf(step.parent))}>step ${nameOf(step.parent)}</a></p>`}
    ${outcome && html`<${Trouble} problem=${outcome.problem} />`}
    ${step.acts && html`<${Action} run=${run} round=${round} step=${step} readsOnly=${readsOnly} onDone=${onDone} />`}
    ${isAsked(run, step) && html`<${Asked} run=${run} round=${round} step=${step} readsOnly=${readsOnly} onDone=${onDone} />`}
    ${!readsOnly && html`<${From} run=${run} round=${round} step=${step} />`}
    ${rules.length > 0 && html`<p class="dim">Runs ${line(rules.join(", "), 300)}.</p>`}
    <h3>Subtask</h3><${Text} text=${step.subtask ?? planned?.subtask ?? `${planned?.steps?.length} steps`} />
    ${isWhole && html`<${Parts} run=${run} round=${round} step=${step} isMap=${isMap} />`}
    ${!isCheck && !isPart && !isWhole && html`<${Shown} run=${run} round=${round} step=${step} />`}
    <h3>Output</h3><${Text} text=${step.text} isWriting=${step.status === "running"} />
    ${outcome && !isWhole && html`<${Bill} outcome=${outcome} />`}
    <${Attempts} step=${step} />
    ${step.nested.map((id) => html`<p><a href=${runHref(id)}>Nested run ${line(id, 12)}</a></p>`)}
  </aside>`;
}

const isAsked = (run, step) => run.status === "waiting" && step.approval?.state === "asked";

// The items of a map, or the steps inside of a block, with the turns of a loop one after another.
function Parts({ run, round, step, isMap }) {
  const { children } = step;
  const rows = useMemo(() => inOrder(children).slice(0, MOST_ROWS), [children, children.length]);
  const more = children.length - rows.length;
  return html`<h3>${isMap ? "Items" : partOf(round, step).step?.until ? "Loop" : "Steps"} <span class="dim">${countsOf(round, step)}</span></h3>
    ${rows.length === 0 && html`<p class="dim">None has begun.</p>`}
    <ul class="parts">${rows.map((each) => html`<li key=${each.name}>
      <a href=${stepHref(run.id, round.number, each.name)}><b>${each.name}</b> <${Badge} status=${statusOf(run, each)} /></a>
      <span class="dim cut">${line(countsOf(round, each) || each.outcome?.problem?.message || each.text || each.subtask || "", 120)}</span>
    </li>`)}</ul>
    ${more > 0 && html`<p class="dim">and ${count(more)} more</p>`}`;
}

// What an action was asked to do, its end, and the decision of a person on an unknown end.
function Action({ run, round, step, readsOnly, onDone }) {
  const end = endOf(run, step);
  const isOpen = ["unknown", "failed"].includes(end) && step.isBegun && run.status !== "running";
  const by = step.decided?.by ? `, as ${line(step.decided.by, 40)} said` : "";
  return html`<h3>Action</h3>
    <p>${end ? `${ENDS[end][0].toUpperCase()}${ENDS[end].slice(1)}${by}${step.decided?.why ? `: ${line(step.decided.why)}` : ""}.` : "It has not ended."}</p>
    ${step.asked && !isAsked(run, step) && html`<${Text} text=${step.asked} />`}
    ${isOpen && (readsOnly
      ? html`<p class="wait banner">See for yourself whether it was done, then <code>podium decide ${shortId(run.id)} --action ${step.index}${round.number > 1 ? ` --round ${round.number}` : ""} done</code> or <code>not-done</code>.</p>`
      : html`<${Ending} run=${run} round=${round} step=${step} onDone=${onDone} />`)}`;
}

// The prompt is made by the server with the code that makes the prompts of workers.
function Shown({ run, round, step }) {
  const [found, setFound] = useState({ state: "loading" });
  useEffect(() => {
    let isOn = true;
    const path = runPath(run.id, `/prompts?round=${round.number}&step=${step.index}`);
    get(path).then((list) => isOn && setFound({ state: "ready", prompt: list.data[0] }),
      (error) => isOn && setFound({ state: "error", error }));
    return () => (isOn = false);
  }, [run.id, round.number, step.index, step.status === "pending", round.plan]);
  if (found.state === "loading") return html`<h3>Shown to the worker</h3><p class="dim" role="status">Loading…</p>`;
  if (found.state === "error") return html`<h3>Shown to the worker</h3><p class="bad">${found.error.message}</p>`;
  const prompt = found.prompt;
  if (!prompt) return html`<h3>Shown to the worker</h3><p class="dim">The step has not started.</p>`;
  const links = (steps) => steps.map((each) => html`<a class="chip" href=${stepHref(run.id, round.number, each)}>step ${each}</a> `);
  return html`<h3>Shown to the worker</h3>
    <p>${prompt.shown.length ? links(prompt.shown) : html`<span class="dim">no other step </span>`}
      ${prompt.previous.length > 0 && html`<span class="dim"> and ${prompt.previous.length} of the round before</span>`}</p>
    <p class="dim">Not shown: ${prompt.hidden.length ? links(prompt.hidden) : "nothing is hidden"}</p>
    ${prompt.messages
      ? html`<details><summary>Prompt</summary>${prompt.messages.map((each) => html`<h4>${each.role}</h4><${Text} text=${contentOf(each)} />`)}</details>`
      : html`<p class="dim">${prompt.why}</p>`}`;
}

const contentOf = (message) => (typeof message.content === "string" ? message.content : JSON.stringify(message.content, null, 2));

export function Bill({ outcome }) {
  const took = outcome.started == null ? "" : seconds(outcome.ended - outcome.started);
  return html`<h3>Bill</h3><dl class="facts">
    <dt>Cost</dt><dd>${usd(outcome.cost)}${outcome.maybe_paid ? ", and part of it may not be billed" : ""}</dd>
    <dt>Tokens</dt><dd>${tokens(outcome.usage)}${outcome.charged === "usage" ? "" : `, charged by ${outcome.charged}`}</dd>
    ${took && html`<dt>Time</dt><dd>${took}, from ${seconds(outcome.started)} after the start of the run</dd>`}
    ${outcome.reused && html`<dt>Reused</dt><dd>an earlier result, without a call</dd>`}
  </dl>`;
}

function Attempts({ step }) {
  if (step.attempts.length < 2) return null;
  return html`<h3>Calls</h3><ol class="attempts">${step.attempts.map((each) => html`<li>
    <${Badge} status=${each.status} /> ${line(each.worker ?? "", 40)}
    ${each.cost !== undefined && html` <span class="dim">${usd(each.cost)}</span>`}
    ${each.wait != null && html` <span class="dim">then a wait of ${seconds(each.wait)}</span>`}
    ${each.problem && html`<div class="dim">${visible(each.problem.message)}</div>`}
  </li>`)}</ol>`;
}
