// The page of one run.

import { Waiting } from "./approval.js";
import { Changes, Reasons } from "./change.js";
import { statusOf } from "./executions.js";
import { costOf, judged, nameOf, planned, stepNamed, stepsOf, tokensOf } from "./fold.js";
import { count, elapsed, exactly, line, seconds, sentences, shortId, tokens, usd, visible } from "./format.js";
import { useKeys } from "./keys.js";
import { useRun } from "./live.js";
import { lastList, listHref, runHref, stepHref } from "./place.js";
import { Score } from "./score.js";
import { Badge } from "./status.js";
import { StepPanel } from "./step.js";
import { Text, Trouble } from "./text.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

// `isInside`: the run is shown below the form that asked it.
export function RunPage({ id, place = null, readsOnly, isInside = false }) {
  const { run, stream, error, again } = useRun(id);
  const [number, setNumber] = useState(null);
  const found = run.rounds.find((each) => each.number === (place?.round ?? number));
  const round = found ?? run.rounds.at(-1);
  const step = place && found ? stepNamed(found, place.step) : null;
  const top = step ? Number.parseInt(nameOf(step), 10) : undefined;  // an execution is inside of this step
  const go = (by) => {
    const most = round ? planned(round).length : 0;
    if (most) location.hash = stepHref(id, round.number, Math.max(0, Math.min((top ?? (by > 0 ? -1 : 1)) + by, most - 1)));
  };
  useKeys({ j: () => go(1), k: () => go(-1), Escape: () => (location.hash = place ? runHref(id) : lastList()) });
  useEffect(() => {
    if (!isInside) document.title = `${line(run.question, 60) || shortId(id)} · Podium`;
  }, [run.question]);
  if (error && !run.rounds.length) {
    return html`<div class="note" role="alert"><h1>The run cannot be shown</h1><p>${error.message}</p><a href=${lastList()}>All runs</a></div>`;
  }
  if (run.status === "loading") return html`<p class="note" role="status">Loading the run…</p>`;
  const choose = (chosen) => {
    setNumber(chosen);
    if (place) location.hash = runHref(id);
  };
  return html`<div class=${step ? "run with-panel" : "run"}>
    <div class="body">
      <${Head} run=${run} stream=${stream} isInside=${isInside} />
      ${error && html`<p class="bad banner" role="alert">${error.message}</p>`}
      <${Trouble} problem=${run.problem} />
      <${Reasons} run=${run} />
      ${place && !step && html`<p class="wait banner" role="status">${unknown(run, round, place)}</p>`}
      ${run.status === "queued" && html`<p class="wait banner" role="status">The run waits in the queue. It begins when a process of the server has a free slot.</p>`}
      ${!readsOnly && html`<${Changes} run=${run} round=${run.rounds.at(-1)} onDone=${again} />`}
      <${Gauges} run=${run} />
      ${run.rounds.length > 1 && html`<${Rounds} run=${run} current=${round} choose=${choose} />`}
      ${round && html`<${RoundView} run=${run} round=${round} at=${top} />`}
      ${round && html`<${Waiting} run=${run} round=${round} readsOnly=${readsOnly} onDone=${again} />`}
      ${run.status !== "queued" && html`<h2>Answer</h2><${Answer} run=${run} />`}
    </div>
    ${step && html`<${StepPanel} key=${`${round.number}.${nameOf(step)}`} run=${run} round=${round} step=${step} close=${runHref(id)} readsOnly=${readsOnly} onDone=${again} />`}
  </div>`;
}

function Answer({ run }) {
  if (run.answer || run.status === "running") return html`<${Text} text=${run.answer} isWriting=${run.status === "running"} />`;
  return html`<p class="dim">The run has no answer${run.status === "waiting" ? " yet" : ""}.</p>`;
}

function unknown(run, round, place) {
  const last = (round?.steps.length ?? 0) - 1;
  const has = last < 0 ? "It has no steps" : `The steps of round ${round.number} are ${round.number}.0 to ${round.number}.${last}`;
  return `The run has no step ${line(place.name, 20)}${["queued", "running", "waiting"].includes(run.status) ? " yet" : ""}. ${has}.`;
}

function Head({ run, stream, isInside }) {
  return html`<div class="head">
    <p class="crumbs"><a href=${lastList()}>Runs</a> / ${run.model && html`<a href=${listHref({ model: run.model })}>${line(run.model, 40)}</a> · `}
      ${isInside ? html`<a href=${runHref(run.id)}>${shortId(run.id)}</a>` : shortId(run.id)}${run.began && ` · ${exactly(run.began)}`}
      ${run.labels.map((each) => html` · <a href=${listHref({ label: each })}>${line(each, 30)}</a>`)}
      ${run.recalls && html` · <a href=${runHref(run.recalls)}>replay of ${shortId(run.recalls)}</a>`}</p>
    <div class="title"><${Badge} status=${run.status} /><h1>${line(run.question, 300) || "(no question)"}</h1></div>
    ${stream === "lost" && html`<p class="bad banner" role="status">The connection is lost. The viewer connects again.</p>`}
    ${run.question.length > 300 && html`<details><summary>Whole question</summary><${Text} text=${run.question} /></details>`}
  </div>`;
}
function Rounds({ run, current, choose }) {
  return html`<div class="tabs" role="group" aria-label="Rounds">${run.rounds.map((each) => html`
    <button aria-pressed=${each === current} onClick=${() => choose(each.number)}>Round ${each.number}</button>`)}</div>`;
}

function decided(approval) {
  if (!approval || approval.state === "asked") return "";
  return `the plan was ${approval.state}${approval.by ? ` by ${line(approval.by, 40)}` : ""}${approval.why ? `: ${line(approval.why)}` : ""}`;
}

function RoundView({ run, round, at }) {
  const check = judged(round);
  return html`<section aria-label=${`Round ${round.number}`}>
    <div class="section"><h2>Plan</h2><p class="dim">${sentences(
      line(round.why, 200),
      round.planner && (round.plan || round.isPlanning) && `written by ${line(round.planner, 40)}${round.isFallback ? " (fallback)" : ""}`,
      round.approval?.state !== "changed" && line(round.plannerWhy ?? "", 200),
      decided(round.approval),
    )}</p></div>
    ${round.isPlanning && round.planText && html`<pre class="text writing plan-text" tabindex="0"><span>${visible(round.planText)}</span></pre>`}
    <${Score} run=${run} round=${round} at=${at} href=${(index) => stepHref(run.id, round.number, index)} />
    ${check && html`<p>Check of the answer: <a href=${stepHref(run.id, round.number, check.index)}><${Badge} status=${check.status} /></a></p>`}
    ${round.proposals.length > 0 && html`<details><summary>Calls of the planner (${round.proposals.length})</summary>
      ${round.proposals.map((each) => html`<h3>${line(each.planner, 40)} <span class="dim">${each.role}, ${usd(each.cost)}, ${tokens(each.usage)}, ${seconds(each.seconds)}</span></h3>
        <${Trouble} problem=${each.problem} /><${Text} text=${each.text} />`)}</details>`}
  </section>`;
}

// What a run has spent, beside its limits.

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
