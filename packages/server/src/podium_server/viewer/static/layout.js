// Where the steps of a plan are drawn, and which of them decided how long the round took.

import { Graph, layout } from "./vendor/dagre.js";

export const WIDTH = 170;
export const HEIGHT = 52;

// The columns are from left to right, or from the top down.
export function placed(round, isDown) {
  const graph = new Graph();
  graph.setGraph({ rankdir: isDown ? "TB" : "LR", nodesep: 12, edgesep: 10, ranksep: 32, marginx: 10, marginy: 12, ranker: rank });
  graph.setDefaultEdgeLabel(() => ({}));
  const steps = round.plan ? round.plan.steps : round.steps.map((_, index) => round.draft[index] ?? { access: [] });
  steps.forEach((_, index) => graph.setNode(`${index}`, { width: WIDTH, height: HEIGHT }));
  steps.forEach((step, index) => neededBy(step).forEach((from) => from < index && graph.setEdge(`${from}`, `${index}`)));
  if (steps.length) layout(graph);
  const nodes = steps.map((_, index) => graph.node(`${index}`));
  if (nodes.length) firstOnTop(graph, nodes, isDown ? ["x", "width"] : ["y", "height"]);
  const edges = graph.edges().map((edge) => {
    const [from, to] = [Number(edge.v), Number(edge.w)];
    return { from, to, path: curve(nodes[from], nodes[to], graph.edge(edge).points, isDown) };
  });
  const { width = 0, height = 0 } = steps.length ? graph.graph() : {};
  return { nodes, edges, width, height };
}

// Turns the columns around if the first step is in the second half of its column.
function firstOnTop(graph, nodes, [across, most]) {
  const extent = graph.graph()[most];
  if (nodes[0][across] <= extent / 2) return;
  const points = graph.edges().flatMap((edge) => graph.edge(edge).points);
  for (const each of [...nodes, ...points]) each[across] = extent - each[across];
}

// A step is in the column after the last of the steps that it sees; dagre's own rankers move it to the right.
function rank(graph) {
  const rankOf = (name) => {
    const node = graph.node(name);
    node.rank ??= Math.max(0, ...graph.inEdges(name).map((edge) => rankOf(edge.v) + graph.edge(edge).minlen));
    return node.rank;
  };
  graph.nodes().forEach(rankOf);
}

// A line bends between the columns only, so that it crosses no box. Every second point is in a column.
function curve(from, to, points, isDown) {
  const [along, across, half] = isDown ? ["y", "x", HEIGHT / 2] : ["x", "y", WIDTH / 2];
  const at = (a, b) => (isDown ? [b, a] : [a, b]).map((each) => each.toFixed(1)).join();
  const columns = [...points.filter((_, index) => index % 2 === 0).slice(1, -1), to];
  let [a, b] = [from[along] + half, from[across]];
  let path = `M${at(a, b)}`;
  for (const column of columns) {
    const [start, next] = [column[along] - half, column[across]];
    const middle = (a + start) / 2;
    path += `C${at(middle, b)} ${at(middle, next)} ${at(start, next)}`;
    [a, b] = [column[along] + half, next];
    if (column !== to) path += `L${at(a, b)}`;
  }
  return path;
}

// The earlier steps of the same round that a step needs: those on its access list, and those that its list, its
// condition and the steps inside of it refer to.
function neededBy(step) {
  const found = (step.access ?? []).filter((each) => typeof each === "number");
  for (const text of [step.each, step.when?.ref]) {
    const number = /^\s*\{\{\s*(\d+)/.exec(text)?.[1];
    if (number !== undefined) found.push(Number(number));
  }
  if (step.else !== undefined) found.push(step.else);
  const inside = step.steps ? JSON.stringify([step.steps, step.until ?? null]) : "";
  for (const [, number] of inside.matchAll(/\{\{\s*outer\.(\d+)/g)) found.push(Number(number));
  return [...new Set(found)];
}

// Back from the last step: before each step, the step on whose end it waited or waits. Each step with the one before.
export function criticalPath(round, now) {
  const path = new Map();
  if (!round.plan?.steps.length || round.steps.every((step) => step.status === "pending" && !step.children.length)) return path;
  const ends = endsOf(round, now);
  let at = round.plan.steps.length - 1;
  while (at !== undefined) {
    const { outcome, started } = round.steps[at];
    const begun = outcome?.started ?? started ?? Infinity;
    // A step that needs only some of the steps that it sees does not wait for the others.
    const before = neededBy(round.plan.steps[at]).filter((each) => ends[each] != null && ends[each] <= begun);
    const last = before.length ? before.reduce((late, each) => (ends[each] > ends[late] ? each : late)) : undefined;
    path.set(at, last);
    at = last;
  }
  return path;
}

// When each step ended, null if it never began. A step at work ends now at the earliest, and a step that waits
// ends later than those that it waits for.
function endsOf(round, now) {
  const ends = [];
  round.plan.steps.forEach((step, index) => {
    const { outcome, status, children } = round.steps[index];
    if (outcome !== null) ends.push(outcome.ended);
    else ends.push(status === "running" || children.length ? now : 1 + Math.max(now, ...neededBy(step).map((each) => ends[each] ?? 0)));
  });
  return ends;
}
