// From the events of a run to its state. No other module interprets events.

const INNER = 10_000;  // from this number, a step is an execution inside of a map or a block

export function newRun(id) {
  return {
    id, status: "loading", model: "", question: "", workers: [], limits: null, labels: [], recalls: null,
    rounds: [], answer: "", problem: null, cost: null, at: 0, calls: 0, began: null, ended: null, seen: -1,
    writing: null, zero: null, now: 0, recoveries: 0,
  };
}

// Changes the state for the next event. Recorded events have numbers, and are counted once.
export function fold(run, event) {
  if (event.run_id !== run.id) return;
  if (event.number !== undefined) {
    if (event.number <= run.seen) return;
    run.seen = event.number;
    run.zero = event.recorded - event.at;  // later than the begin by the time of interruptions
    run.began ??= run.zero;
    run.ended = event.recorded;
  }
  run.at = Math.max(run.at, event.at);
  HANDLERS[event.type]?.(run, event);
}

// Sets how many seconds the run has taken; `time` is null if it is not carried out now.
export function tick(run, time) {
  run.now = time === null || run.zero === null ? run.at : Math.max(run.at, time - run.zero);
}

// Adds what the events do not tell of a run that no process carries out.
export function learn(run, { status, recoveries }) {
  if (run.status === "stopped" && status === "dead") Object.assign(run, { status, recoveries });
}

// Marks a run as stopped that no process carries out any more; a process that died recorded no event of it.
export function leave(run) {
  if (run.status === "running") HANDLERS.run_stopped(run, { problem: null });
}

const HANDLERS = {
  run_queued(run, event) {
    Object.assign(run, { status: "queued", model: event.model, question: event.question, began: event.created });
  },
  run_started(run, event) {
    run.began = event.recorded - event.at;
    Object.assign(run, {
      status: "running", workers: event.workers, limits: event.limits, labels: event.labels ?? [],
      recalls: event.recalls, model: event.conductor,
      question: [called(event), event.query.map(textOf).filter(Boolean).at(-1)].filter(Boolean).join("\n"),
    });
  },
  run_resumed(run, event) {
    Object.assign(run, { status: "running", problem: null, cost: null, workers: event.workers });
    run.limits = event.limits ?? run.limits;
    interrupt(run);
    run.rounds.forEach(reopen);
  },
  round_started(run, event) {
    if (run.rounds.some((each) => each.number === event.round)) return;
    run.rounds.push({
      number: event.round, why: event.why, plan: null, planner: null, planText: "", draft: [],
      isPlanning: false, proposals: [], steps: [], approval: null,
      inner: new Map(), named: new Map(), aside: [],  // executions inside of maps and blocks, by number and by name
    });
  },
  planner_started(run, event) {
    run.calls += 1;
    Object.assign(roundOf(run, event), { isPlanning: true, planner: event.planner });
  },
  plan_delta(run, event) {
    // A piece may come before the event that its call has begun.
    const round = roundOf(run, event);
    round.isPlanning = true;
    round.planText = event.is_whole ? event.text : round.planText + event.text;
    if (event.is_whole) round.draft = [];
    for (const step of event.steps) {
      stepAt(round, round.draft.length).subtask ??= step.subtask;
      round.draft.push(step);
    }
  },
  planner_ended(run, event) {
    const round = roundOf(run, event);
    Object.assign(round, { isPlanning: false, planText: "" });
    round.proposals.push(event.proposal);
    if (event.proposal.problem) dropDraft(round);
  },
  plan_ready(run, event) {
    const round = roundOf(run, event);
    Object.assign(round, { planner: event.planner, isFallback: event.is_fallback, plannerWhy: event.why });
    setPlan(round, event.plan);
    for (const index of event.actions ?? []) stepAt(round, index).acts = true;
  },
  approval_asked(run, event) {
    if (isOfStep(event)) {
      const step = stepOf(run, event);
      const acts = step.acts || !(event.is_fan_out || event.question);
      Object.assign(step, { approval: { state: "asked" }, asked: event.asked, question: event.question ?? null, acts });
      return;
    }
    run.status = "waiting";
    roundOf(run, event).approval = { state: "asked" };
    setPlan(roundOf(run, event), event.plan);
  },
  approval_given(run, event) {
    const state = event.approved ? (event.plan ? "changed" : "approved") : "refused";
    const round = roundOf(run, event);
    if (isOfStep(event)) return void (stepOf(run, event).approval = { state, by: event.by, why: event.why });
    round.approval = { state, by: event.by, why: event.why };
    run.status = "running";
    if (event.plan) setPlan(round, event.plan);
  },
  fan_out(run, event) {
    const step = stepOf(run, event);
    if (event.kind === "items") step.total = event.known ?? 0;
  },
  step_started(run, event) {
    run.calls += 1;
    const step = stepOf(run, event);
    const { attempt, worker, at } = event;
    step.attempts.push({ attempt, worker, at, status: "running" });
    step.subtask ??= event.subtask;
    Object.assign(step, { status: "running", worker, started: step.started ?? at });
    for (let above = step.parent; above; above = above.parent) above.started ??= at;
    if (event.action) Object.assign(step, { acts: true, asked: event.asked, key: event.action, isBegun: true, decided: null });
  },
  action_decided(run, event) {
    stepOf(run, event).decided = { end: event.done ? "done" : "not_done", by: event.by, why: event.why };
  },
  step_delta(run, event) {
    const step = stepOf(run, event);
    if (step.outcome !== null) return;
    const isMore = step.writer === event.attempt && !event.is_whole;
    step.text = isMore ? step.text + event.text : event.text;
    Object.assign(step, { writer: event.attempt, status: "running" });
  },
  attempt_failed(run, event) {
    const step = stepOf(run, event);
    step.isBegun = false;  // the call of an action is repeated only if it did not reach the worker
    const attempt = attemptOf(step, event.attempt);
    Object.assign(attempt, { status: "failed", ended: event.at, wait: event.wait }, event.call);
  },
  step_ended(run, event) {
    const step = stepOf(run, event);
    const outcome = event.outcome;
    if (outcome.problem?.code === "superseded") return reset(step);
    for (const each of step.attempts) if (each.status === "running") each.status = outcome.status;
    for (const call of outcome.calls) Object.assign(attemptOf(step, call.attempt), call);
    Object.assign(step, { outcome, status: outcome.status, text: outcome.text, worker: outcome.worker });
    if (event.took) step.key = event.took.key;
  },
  answer_delta(run, event) {
    const from = `${event.round}.${event.step}.${event.attempt}`;
    run.answer = run.writing === from && !event.is_whole ? run.answer + event.text : event.text;
    run.writing = from;
  },
  nested_run_ended(run, event) {
    stepOf(run, event).nested.push(event.nested);
  },
  run_ended(run, event) {
    const { status, answer, problem } = event.result;
    Object.assign(run, { status, answer, problem, cost: event.cost, writing: null });
  },
  run_stopped(run, event) {
    Object.assign(run, { status: "stopped", problem: event.problem });
    interrupt(run);
  },
};

function called(event) {
  const args = Object.entries(event.args ?? {}).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return event.plan && `${event.plan}(${args.join(", ")})`;
}

function textOf(message) {
  if (typeof message.content === "string") return message.role === "user" ? message.content : "";
  return (message.content ?? []).map((part) => part.text ?? "").join(" ");
}

function roundOf(run, event) {
  const found = run.rounds.find((each) => each.number === event.round);
  if (found) return found;
  HANDLERS.round_started(run, { round: event.round, why: "" });
  return run.rounds.at(-1);
}

// Removes the steps of an unfinished plan that have not started.
function dropDraft(round) {
  round.draft = [];
  const isDraft = (step) => step && step.status === "pending" && !step.attempts.length;
  while (isDraft(round.steps.at(-1))) round.steps.pop();
}

function setPlan(round, plan) {
  dropDraft(round);
  if (round.plan && JSON.stringify(round.plan.steps) !== JSON.stringify(plan.steps)) dropInner(round);
  round.plan = plan;
  plan.steps.forEach((each, index) => Object.assign(stepAt(round, index), { subtask: each.subtask ?? `${each.steps.length} steps` }));
}

// Removes the executions of another plan; they are still paid for.
function dropInner(round) {
  for (const step of round.inner.values()) if (step.outcome !== null) round.aside.push(step.outcome);
  for (const step of round.steps) Object.assign(step, { children: [], total: 0 });
  round.inner.clear();
  round.named.clear();
}

function stepOf(run, event) {
  const round = roundOf(run, event);
  const path = event.path || event.outcome?.path;
  if (path) return executionAt(round, path, event.step);
  return event.step < INNER ? stepAt(round, event.step) : innerAt(round, event.step);
}

function stepAt(round, index) {
  while (round.steps.length <= index) round.steps.push(newStep(round.steps.length));
  return round.steps[index];
}

// An execution that may have no name yet: a piece of its text may come before the event that its call has begun.
function innerAt(round, index) {
  if (!round.inner.has(index)) round.inner.set(index, newStep(index));
  return round.inner.get(index);
}

// The execution with a name, below the execution or the step around it. Of a part that has not ended, no event may
// have told the number yet: then `index` is null.
function executionAt(round, name, index) {
  const step = round.named.get(name) ?? (index === null ? newStep(null) : innerAt(round, index));
  if (index !== null) {
    step.index = index;
    round.inner.set(index, step);
  }
  if (!round.named.has(name)) {
    round.named.set(name, step);
    const above = placeOf(round.plan, name).parent;
    step.name = name;
    step.parent = /^\d+$/.test(above) ? stepAt(round, Number(above)) : executionAt(round, above, null);
    step.parent.children.push(step);
  }
  return step;
}

const newStep = (index) => ({
  index, name: null, subtask: null, status: "pending", attempts: [], text: "", outcome: null, nested: [],
  worker: null, started: null, writer: null, acts: false, asked: "", question: null, isBegun: false, approval: null, decided: null,
  parent: null, children: [], total: 0,
});

// The steps of a round, and the executions inside of them.
export const stepsOf = (round) => [...round.steps, ...round.inner.values()];

export const nameOf = (step) => step.name ?? `${step.index}`;
export const stepNamed = (round, name) => (/^\d+$/.test(name) ? round.steps[Number(name)] : round.named.get(name));

// The step of the plan that a name stands for, whether the name is of a whole map, and the name of the part around it:
// `2[17].0` is step 0 of the block of item 17 of step 2, and `3(1).0` is step 0 in the first turn of loop 3.
export function placeOf(plan, name) {
  const around = [];
  let steps = plan?.steps;
  let step;
  let [at, isMap] = ["", false];
  for (const part of name.match(/\d+|\[[^\]]*\]|\([^)]*\)/g) ?? []) {
    const isNumber = /^\d/.test(part);
    at += isNumber && at ? `.${part}` : part;
    if (isNumber) step = steps?.[Number(part)];
    if (isNumber || isMap) around.push(at);  // else it is a turn
    isMap = isNumber && step?.each !== undefined;
    steps = step?.steps;
  }
  return { step, isMap, parent: around.at(-2) ?? name.match(/^\d*/)[0] };
}

function attemptOf(step, number) {
  let found = step.attempts.find((each) => each.attempt === number);
  if (!found) step.attempts.push((found = { attempt: number, status: "failed" }));
  return found;
}

// Ends the work of all steps.
function interrupt(run) {
  for (const step of run.rounds.flatMap(stepsOf)) if (step.status === "running") reset(step);
}

// Removes the ends of executions without a call: a resumed run decides again which of them exist.
function reopen(round) {
  for (const step of round.inner.values()) {
    if (!["skipped", "cancelled"].includes(step.outcome?.status) || step.outcome.attempts) continue;
    reset(step);
    if (step.children.length || step.approval?.state === "asked") continue;  // a decision on another step does not end the wait
    step.parent.children = step.parent.children.filter((each) => each !== step);
    round.named.delete(step.name);
  }
}

function reset(step) {
  for (const each of step.attempts) if (each.status === "running") each.status = "cancelled";
  Object.assign(step, { status: "pending", outcome: null, text: "", writer: null, started: null });
}

const isOfStep = (event) => event.step !== null && event.step !== undefined;

// How an action has ended: done, failed, not_done, or unknown; null before its end, and for other steps.
export function endOf(run, step) {
  if (!step.acts || step.approval?.state === "asked") return null;
  if (step.decided) return step.decided.end;
  if (step.outcome) return step.outcome.action ?? "not_done";
  return step.isBegun && run.status !== "running" ? "unknown" : null;
}

// The actions and the fan-outs of a round that wait for an approval.
export const waiting = (round) => stepsOf(round).filter((step) => step.approval?.state === "asked");

// The steps of the plan, without the call that judges the answer.
export const planned = (round) => (round.plan ? round.steps.slice(0, round.plan.steps.length) : round.steps);
export const judged = (round) => (round.plan ? (round.steps[round.plan.steps.length] ?? null) : null);

// The cost so far in USD; null if one of the costs is unknown.
export function costOf(run) {
  return billsOf(run).reduce((sum, bill) => (sum === null || bill.cost === null ? null : sum + bill.cost), 0);
}

export function tokensOf(run) {
  const bills = billsOf(run);
  const sum = (name) => bills.reduce((total, bill) => total + (bill.usage?.[name] ?? 0), 0);
  return { input: sum("input_tokens"), output: sum("output_tokens") };
}

function billsOf(run) {
  return run.rounds.flatMap((round) => [
    ...round.proposals,
    ...round.aside,
    ...stepsOf(round).flatMap((step) => (step.outcome === null ? [] : [step.outcome])),
  ]);
}
