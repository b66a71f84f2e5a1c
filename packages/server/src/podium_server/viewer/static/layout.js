// Where the steps of a plan are drawn, and which of them decided how long the round took.

import { Graph, layout } from "./vendor/dagre.js";

export const WIDTH = 190;
export const HEIGHT = 52;

export function placed(round) {
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 56, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  const steps = round.plan ? round.plan.steps : round.steps.map(() => ({ access: [] }));
  steps.forEach((_, index) => graph.setNode(`${index}`, { width: WIDTH, height: HEIGHT }));
  steps.forEach((step, index) => seenBy(step).forEach((from) => graph.setEdge(`${from}`, `${index}`)));
  if (steps.length) layout(graph);
  const nodes = steps.map((_, index) => graph.node(`${index}`));
  const edges = graph.edges().map((edge) => ({ from: Number(edge.v), to: Number(edge.w), points: graph.edge(edge).points }));
  const { width = 0, height = 0 } = steps.length ? graph.graph() : {};
  return { nodes, edges, width, height };
}

// The earlier steps of the same round on an access list.
export const seenBy = (step) => (step.access ?? []).filter((each) => typeof each === "number");

// Back from the last step: before each step, the step on whose end it waited. Each step with the one before.
export function criticalPath(round) {
  const path = new Map();
  if (!round.plan?.steps.length) return path;
  let at = round.plan.steps.length - 1;
  while (at !== undefined && !path.has(at)) {
    const here = at;
    const before = seenBy(round.plan.steps[here]).filter((each) => round.steps[each].outcome?.ended != null);
    const end = (index) => round.steps[index].outcome.ended;
    at = before.length ? before.reduce((late, each) => (end(each) > end(late) ? each : late)) : undefined;
    path.set(here, at);
  }
  return path;
}

export function curve(points) {
  const [first, ...rest] = points.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`);
  if (rest.length < 2) return `M${first}L${rest.join(" ")}`;
  const middles = points.slice(1, -1).map((point, index) => {
    const next = points[index + 2];
    const isLast = index === points.length - 3;
    const [x, y] = isLast ? [next.x, next.y] : [(point.x + next.x) / 2, (point.y + next.y) / 2];
    return `Q${point.x.toFixed(1)},${point.y.toFixed(1)} ${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return `M${first}${middles.join("")}`;
}
