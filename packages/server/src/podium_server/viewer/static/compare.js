// Two runs side by side: status, costs, plans, steps and answers.

import { costOf, planned, tokensOf } from "./fold.js";
import { count, elapsed, line, seconds, shortId, usd } from "./format.js";
import { useKeys } from "./keys.js";
import { useRun } from "./live.js";
import { lastList, runHref, stepHref } from "./place.js";
import { Score } from "./score.js";
import { Badge } from "./status.js";
import { Text } from "./text.js";
import { html, useEffect } from "./vendor/htm-preact.js";

const ROWS = [
  ["cost", (run) => usd(run.cost ?? costOf(run))],
  ["time", (run) => (run.status === "running" ? elapsed : seconds)(run.now)],
  ["calls", (run) => count(run.calls)],
  ["tokens read", (run) => count(tokensOf(run).input)],
  ["tokens written", (run) => count(tokensOf(run).output)],
  ["rounds", (run) => count(run.rounds.length)],
];

export function Compare({ ids }) {
  const sides = [useRun(ids[0]), useRun(ids[1])];
  useKeys({ Escape: () => (location.hash = lastList()) });
  useEffect(() => {
    document.title = "Two runs · Podium";
  }, []);
  const failed = sides.find((each) => each.error);
  if (failed) return html`<div class="note" role="alert"><h1>The runs cannot be compared</h1><p>${failed.error.message}</p><a href=${lastList()}>All runs</a></div>`;
  if (sides.some((each) => each.run.status === "loading")) return html`<p class="note" role="status">Loading the runs…</p>`;
  const runs = sides.map((each) => each.run);
  const rounds = runs.map((run) => run.rounds.at(-1) ?? null);
  return html`<div class="compare">
    <p class="crumbs"><a href=${lastList()}>Runs</a> / two runs</p>
    <div class="pair">${runs.map((run) => html`<div><div class="title"><${Badge} status=${run.status} /><h1><a href=${runHref(run.id)}>${line(run.question, 120) || "(no question)"}</a></h1></div>
      <p class="dim">${line(run.model, 40)} · ${shortId(run.id)}</p></div>`)}</div>
    <table><thead><tr><th scope="col">amount</th><th scope="col">first run</th><th scope="col">second run</th></tr></thead><tbody>
      ${ROWS.map(([name, of]) => html`<tr class=${of(runs[0]) === of(runs[1]) ? "" : "differs"}><th scope="row">${name}</th><td>${of(runs[0])}</td><td>${of(runs[1])}</td></tr>`)}
    </tbody></table>
    <h2>Plans of the last round</h2>
    <div class="pair">${runs.map((run, side) => rounds[side] && html`<${Score} run=${run} round=${rounds[side]} hasKeys=${false}
      href=${(index) => stepHref(run.id, rounds[side].number, index)} />`)}</div>
    <${Steps} runs=${runs} rounds=${rounds} />
    <h2>Answers</h2>
    <div class="pair">${runs.map((run) => html`<div><${Text} text=${run.answer} /></div>`)}</div>
  </div>`;
}

function Steps({ runs, rounds }) {
  const lists = rounds.map((round) => (round ? planned(round) : []));
  const most = Math.max(...lists.map((each) => each.length));
  const cell = (side, index) => {
    const step = lists[side][index];
    if (!step) return html`<td class="dim">no such step</td>`;
    return html`<td><a href=${stepHref(runs[side].id, rounds[side].number, index)}><${Badge} status=${step.status} /> ${line(step.worker ?? "", 30)}</a>
      <div class="dim">${line(step.subtask ?? "", 160)}</div></td>`;
  };
  const same = (index) => ["subtask", "worker", "status"].every((name) => lists[0][index]?.[name] === lists[1][index]?.[name]);
  return html`<h2>Steps</h2><table><thead><tr><th scope="col">step</th><th scope="col">first run</th><th scope="col">second run</th></tr></thead><tbody>
    ${Array.from({ length: most }, (_, index) => html`<tr class=${same(index) ? "" : "differs"}><th scope="row">${index}</th>${cell(0, index)}${cell(1, index)}</tr>`)}
  </tbody></table>`;
}
