// The executions inside of maps and blocks: what they are in the plan, their counts, and their order.

import { nameOf, placeOf, stepNamed } from "./fold.js";
import { count, usd } from "./format.js";

// What a step, or an execution inside of it, is in the plan of its round.
export const partOf = (round, step) => placeOf(round.plan, nameOf(step));

// The status; a map or a block is at work while the run is, once a part of it has begun. What waits has not ended.
export function statusOf(run, step) {
  const isAsked = run.status === "waiting" && step.approval?.state === "asked";
  if (isAsked || (run.status === "waiting" && step.children.some((each) => statusOf(run, each) === "waiting"))) return "waiting";
  if (step.outcome?.problem?.code === "waiting") return "pending";
  const isBegun = step.outcome === null && step.children.length > 0;
  return isBegun && step.status === "pending" && run.status === "running" ? "running" : step.status;
}

// How far a map or a block is, as in "37 of 200, 2 failed, $0.41"; empty for other steps, and before its start.
export function countsOf(round, step) {
  const { step: planned, isMap } = partOf(round, step);
  if (!planned || (!step.children.length && !step.total)) return "";
  const ended = step.children.filter((each) => !["pending", "running"].includes(each.status) && each.outcome?.problem?.code !== "waiting");
  const failed = ended.filter((each) => each.status === "failed").length;
  const cost = costIn(step);
  return [
    isMap ? `${count(ended.length)} of ${count(totalOf(round, step))}`
      : planned.until ? `turn ${lastTurn(step)} of ${planned.most}`
      : planned.steps ? `${ended.length} of ${planned.steps.length} steps` : "",
    failed && `${count(failed)} failed`,
    cost && (cost < 0.01 ? usd(cost) : `$${cost.toFixed(2)}`),  // it is in a box
  ].filter(Boolean).join(", ");
}

function costIn(step) {
  const own = step.outcome?.cost ?? 0;
  return step.children.reduce((sum, each) => sum + costIn(each), own);
}

// The number of items of a map: from its plan, from the events before its items began, or from the map that it follows.
function totalOf(round, step) {
  const { each } = partOf(round, step).step;
  const known = typeof each === "number" ? each : Array.isArray(each) ? each.length : step.total;
  if (step.outcome !== null || known) return Math.max(known, step.children.length);
  const name = nameOf(step).replace(/\d+$/, `${/\d+/.exec(each)}`);
  const source = stepNamed(round, name);
  const follows = source && source !== step && partOf(round, source).isMap;
  return Math.max(step.children.length, follows ? totalOf(round, source) : 0);
}

function lastTurn(step) {
  const numbers = step.children.map((each) => Number(/\((\d+)\)/.exec(each.name.slice(nameOf(step).length))?.[1] ?? 1));
  return Math.max(1, ...numbers);
}

// The parts in the order of the list, or of the turns.
export function inOrder(children) {
  const numbers = (step) => step.name.match(/\d+/g).map(Number);
  return children.map((step) => [numbers(step), step]).sort(([a], [b]) => {
    const at = a.findIndex((each, index) => each !== b[index]);
    return at < 0 ? a.length - b.length : a[at] - (b[at] ?? -1);
  }).map(([, step]) => step);
}

// When and how often a step runs.
export function rulesOf({ when, each, enough, until, most, access, else: other }) {
  const told = [];
  if (when) told.push(`if ${conditionOf(when)}`);
  if (other !== undefined) told.push(`else the output of step ${other}`);
  if (each !== undefined) told.push(`for each of ${typeof each === "string" ? each : Array.isArray(each) ? each.length : each}`);
  if (enough !== undefined) told.push(each === undefined ? `after ${enough} of ${access.length}` : `until ${enough} are ok`);
  if (until) told.push(`until ${conditionOf(until)}, at most ${most} turns`);
  return told;
}

const conditionOf = ({ ref, ...tests }) => `${ref} ${Object.entries(tests).map(([name, operand]) => `${name} ${JSON.stringify(operand)}`).join(", ")}`;
