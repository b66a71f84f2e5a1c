// The charts: what the runs of each day cost, and how long the steps of each worker took. The database computes
// the sums.

import { get, useModels } from "./api.js";
import { count, line, seconds, usd } from "./format.js";
import { listHref, replacePlace, sumsHref } from "./place.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

const DAY = 86400;
const COLOURS = 7;  // the workers after the first ones share the last colour
const PERIODS = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "a year"]];

export function SumsPage({ query, canAsk }) {
  const [models] = useModels(canAsk);
  const [found, setFound] = useState({ state: "loading" });
  const days = PERIODS.some(([each]) => each === query.days) ? query.days : "30";
  useEffect(() => {
    document.title = "Charts · Podium";
    let isOn = true;
    const until = (Math.floor(Date.now() / 1000 / DAY) + 1) * DAY - 1;
    const asked = new URLSearchParams({ since: until + 1 - days * DAY, until, ...(query.model && { model: query.model }) });
    get(`/v1/sums?${asked}`).then((sums) => isOn && setFound({ state: "ready", sums }), (error) => isOn && setFound({ state: "error", error }));
    return () => (isOn = false);
  }, [days, query.model]);
  const change = (changed) => replacePlace(sumsHref({ ...query, ...changed }));
  const names = [...new Set([...(query.model ? [query.model] : []), ...(models ?? []).map((each) => each.id)])];
  return html`<div class="body sums">
    <div class="bar flat"><h1>Charts</h1>
      <select aria-label="Period" value=${days} onChange=${(event) => change({ days: event.target.value })}>${PERIODS.map(([each, words]) => html`<option value=${each}>${words}</option>`)}</select>
      ${names.length > 0 && html`<select aria-label="Model" value=${query.model ?? ""} onChange=${(event) => change({ model: event.target.value })}>
        <option value="">all models</option>${names.map((each) => html`<option value=${each}>${line(each, 40)}</option>`)}</select>`}
      <span class="dim">Days are in UTC, and a run counts on the day on which it began.</span></div>
    ${found.state === "loading" && html`<p class="note" role="status">Adding up the runs…</p>`}
    ${found.state === "error" && html`<p class="bad banner" role="alert">${found.error.message}</p>`}
    ${found.state === "ready" && html`<${Charts} sums=${found.sums} query=${query} />`}
  </div>`;
}

function Charts({ sums, query }) {
  const workers = totals(sums.workers);
  const days = daysOf(sums);
  if (!sums.days.length) return html`<p class="note">No run began in this time.</p>`;
  const costs = days.map((day) => sum(sums.workers.filter((each) => each.day === day), "cost"));
  const most = Math.max(...costs);
  const means = workers.flatMap((worker) => worker.days.map(meanOf));
  const slowest = Math.max(0.001, ...means);
  const dearest = Math.max(1e-9, ...workers.flatMap((worker) => worker.days.map((each) => each.cost)));
  return html`<${Facts} sums=${sums} />
    <h2>Cost by day</h2>
    <div class="chart"><span class="dim scale">${usd(most)}</span><ol class="bars" aria-label="Cost by day">${days.map((day, at) => {
      const parts = workers.map((worker) => worker.by.get(day)).filter((each) => each?.cost > 0);
      const runs = sums.days.find((each) => each.day === day);
      const told = `${day}: ${usd(costs[at])} in ${count(runs?.runs ?? 0)} ${runs?.runs === 1 ? "run" : "runs"}${parts.map((each) => `\n${each.worker} ${usd(each.cost)}`).join("")}`;
      return html`<li key=${day}><a href=${listHref({ model: query.model, day })} title=${told} aria-label=${told.replaceAll("\n", ", ")}>
        ${parts.map((each) => html`<span class=${`c${workers.findIndex((one) => one.name === each.name) % (COLOURS + 1)}`} style=${{ height: `${(100 * each.cost) / (most || 1)}%` }}></span>`)}</a></li>`;
    })}</ol><span class="ends dim"><span>${days[0]}</span><span>${days.at(-1)}</span></span></div>
    <h2>Cost and time by worker</h2>
    <div class="wide" tabindex="0" role="region" aria-label="Cost and time by worker"><table class="workers"><thead><tr><th scope="col">worker</th><th scope="col" class="number">calls</th><th scope="col" class="number">cost</th><th scope="col">cost by day</th><th scope="col" class="number">mean time</th><th scope="col">mean time by day</th><th scope="col" class="number">tokens read, written</th></tr></thead>
      <tbody>${workers.map((each, at) => html`<tr key=${each.name}><th scope="row"><span class=${`swatch c${at % (COLOURS + 1)}`}></span>${line(each.worker, 40)}${each.role === "planner" && html` <span class="dim">planner</span>`}</th>
        <td class="number">${count(each.calls)}</td>
        <td class="number">${usd(each.cost)}${each.unpriced > 0 && html`<div class="dim">and ${count(each.unpriced)} of unknown cost</div>`}</td>
        <td><${Spark} days=${days} worker=${each} value=${(day) => day.cost} write=${usd} most=${dearest} colour=${at} /></td>
        <td class="number">${each.timed ? seconds(meanOf(each)) : ""}</td>
        <td><${Spark} days=${days} worker=${each} value=${meanOf} write=${seconds} most=${slowest} colour=${at} /></td>
        <td class="number">${count(each.input_tokens)}, ${count(each.output_tokens)}</td></tr>`)}</tbody></table></div>
    <details><summary>Numbers by day</summary><div class="wide" tabindex="0" role="region" aria-label="Numbers by day"><table class="workers"><thead><tr><th scope="col">day</th><th scope="col">worker</th><th scope="col" class="number">calls</th><th scope="col" class="number">cost</th><th scope="col" class="number">mean time</th></tr></thead>
      <tbody>${[...sums.workers].reverse().map((each) => html`<tr><th scope="row">${each.day}</th><td>${line(each.worker, 40)}</td><td class="number">${count(each.calls)}</td><td class="number">${usd(each.cost)}</td><td class="number">${each.timed ? seconds(meanOf(each)) : ""}</td></tr>`)}</tbody></table></div></details>`;
}

// The sums of the whole time, and what the charts leave out.
function Facts({ sums }) {
  const [ofRuns, ofCalls, runs, unknown] = [sum(sums.days, "cost"), sum(sums.workers, "cost"), sum(sums.days, "runs"), sum(sums.days, "unknown")];
  const left = ofRuns - ofCalls;
  return html`<div class="gauges">
      <div><span class="dim">runs</span> <b>${count(runs)}</b></div>
      <div><span class="dim">cost of calls</span> <b>${usd(ofCalls)}</b></div>
      <div><span class="dim">mean cost of a run</span> <b>${usd(ofCalls / runs)}</b></div>
    </div>
    ${unknown > 0 && html`<p class="dim">${count(unknown)} ${unknown === 1 ? "run has" : "runs have"} not ended, or no known cost: their calls count as far as they are known.</p>`}
    ${left > 1e-6 && html`<p class="dim">The runs that have ended cost ${usd(left)} more: for calls whose end is not recorded, such as those of a process that died.</p>`}`;
}

// Small bars, one for each day.
function Spark({ days, worker, value, write, most, colour }) {
  const told = days.map((day) => worker.by.get(day)).filter(Boolean).map((each) => `${each.day} ${write(value(each))}`);
  return html`<span class="spark" title=${told.slice(-14).join("\n")} aria-hidden="true">${days.map((day) => {
    const each = worker.by.get(day);
    return html`<span class=${`c${colour % (COLOURS + 1)}`} style=${{ height: `${each && value(each) ? Math.max(4, (100 * value(each)) / most) : 0}%` }}></span>`;
  })}</span>`;
}

const sum = (rows, name) => rows.reduce((total, each) => total + each[name], 0);
const meanOf = (each) => (each.timed ? each.seconds / each.timed : 0);

// The workers with their sums, the most expensive first.
function totals(rows) {
  const found = new Map();
  for (const row of rows) {
    const name = `${row.role} ${row.worker}`;
    if (!found.has(name)) found.set(name, []);
    found.get(name).push({ ...row, name });
  }
  const names = ["calls", "cost", "unpriced", "input_tokens", "output_tokens", "timed", "seconds"];
  const workers = [...found.values()].map((days) => ({
    ...days[0], days, by: new Map(days.map((each) => [each.day, each])), ...Object.fromEntries(names.map((name) => [name, sum(days, name)])),
  }));
  return workers.sort((a, b) => b.cost - a.cost || b.calls - a.calls);
}

// All days of the time, also those without runs.
function daysOf({ since, until }) {
  const days = [];
  for (let at = since; at <= until; at += DAY) days.push(new Date(at * 1000).toISOString().slice(0, 10));
  return days;
}
