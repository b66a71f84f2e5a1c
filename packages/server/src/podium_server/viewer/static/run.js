// The page of one run.

import { Approval } from "./approval.js";
import { judged, planned } from "./fold.js";
import { exactly, line, seconds, shortId, tokens, usd, visible } from "./format.js";
import { Gauges } from "./gauges.js";
import { useKeys } from "./keys.js";
import { useRun } from "./live.js";
import { runHref, stepHref } from "./place.js";
import { Score } from "./score.js";
import { Badge } from "./status.js";
import { StepPanel } from "./step.js";
import { Text, Trouble } from "./text.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

export function RunPage({ id, place }) {
  const { run, stream, error, again } = useRun(id);
  const [number, setNumber] = useState(null);
  const round = run.rounds.find((each) => each.number === (place?.round ?? number)) ?? run.rounds.at(-1);
  const step = place && round ? round.steps[place.step] : null;
  const go = (by) => {
    const most = round ? planned(round).length : 0;
    if (most) location.hash = stepHref(id, round.number, Math.max(0, Math.min((place?.step ?? (by > 0 ? -1 : 1)) + by, most - 1)));
  };
  useKeys({ j: () => go(1), k: () => go(-1), Escape: () => (location.hash = place ? runHref(id) : "#/") });
  useEffect(() => {
    document.title = `${line(run.question, 60) || shortId(id)} · Podium`;
  }, [run.question]);
  if (error && !run.rounds.length) {
    return html`<div class="note" role="alert"><h1>The run cannot be shown</h1><p>${error.message}</p><a href="#/">All runs</a></div>`;
  }
  if (run.status === "loading") return html`<p class="note" role="status">Loading the run…</p>`;
  const choose = (chosen) => {
    setNumber(chosen);
    if (place) location.hash = runHref(id);
  };
  return html`<div class=${step ? "run with-panel" : "run"}>
    <div class="body">
      <${Head} run=${run} stream=${stream} />
      ${error && html`<p class="bad banner" role="alert">${error.message}</p>`}
      <${Trouble} problem=${run.problem} />
      <${Gauges} run=${run} />
      ${run.rounds.length > 1 && html`<${Rounds} run=${run} current=${round} choose=${choose} />`}
      ${round && html`<${RoundView} run=${run} round=${round} at=${place?.step} />`}
      ${run.status === "waiting" && round?.approval?.state === "asked" && html`<${Approval} run=${run} round=${round} onDone=${again} />`}
      <h2>Answer</h2>
      ${run.answer || run.status === "running" ? html`<${Text} text=${run.answer} isWriting=${run.status === "running"} />` : html`<p class="dim">The run has no answer.</p>`}
    </div>
    ${step && html`<${StepPanel} key=${`${round.number}.${step.index}`} run=${run} round=${round} step=${step} close=${runHref(id)} />`}
  </div>`;
}

function Head({ run, stream }) {
  const facts = [line(run.model, 40), shortId(run.id), run.began && exactly(run.began), ...run.labels.map((each) => line(each, 30))];
  return html`<div class="head">
    <p class="crumbs"><a href="#/">Runs</a> / ${facts.filter(Boolean).join(" · ")}
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

function RoundView({ run, round, at }) {
  const check = judged(round);
  return html`<section aria-label=${`Round ${round.number}`}>
    <div class="section"><h2>Plan</h2><p class="dim">
      ${round.why && `${line(round.why, 200)}. `}
      ${round.planner && `Written by ${line(round.planner, 40)}${round.isFallback ? " (fallback)" : ""}. `}
      ${round.plannerWhy && line(round.plannerWhy, 200)}
      ${round.approval && round.approval.state !== "asked" && `The plan was ${round.approval.state}${round.approval.by ? ` by ${line(round.approval.by, 40)}` : ""}${round.approval.why ? `: ${line(round.approval.why)}` : ""}.`}
    </p></div>
    ${round.isPlanning && round.planText && html`<pre class="text writing plan-text">${visible(round.planText)}</pre>`}
    <${Score} run=${run} round=${round} at=${at} href=${(index) => stepHref(run.id, round.number, index)} />
    ${check && html`<p>Check of the answer: <a href=${stepHref(run.id, round.number, check.index)}><${Badge} status=${check.status} /></a></p>`}
    ${round.proposals.length > 0 && html`<details><summary>Calls of the planner (${round.proposals.length})</summary>
      ${round.proposals.map((each) => html`<h3>${line(each.planner, 40)} <span class="dim">${each.role}, ${usd(each.cost)}, ${tokens(each.usage)}, ${seconds(each.seconds)}</span></h3>
        <${Trouble} problem=${each.problem} /><${Text} text=${each.text} />`)}</details>`}
  </section>`;
}
