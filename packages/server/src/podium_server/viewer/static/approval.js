// What waits for a person: a plan, actions, the questions of steps, and the ends of actions that nobody knows.

import { post, runPath } from "./api.js";
import { Editor, planOf, rowsOf } from "./editor.js";
import { partOf } from "./executions.js";
import { nameOf, waiting } from "./fold.js";
import { Fields, fieldsOf, Form, Why } from "./forms.js";
import { count, line, shortId } from "./format.js";
import { stepHref } from "./place.js";
import { Price } from "./price.js";
import { Text } from "./text.js";
import { html, useState } from "./vendor/htm-preact.js";

const MOST_OPEN = 3;
const MOST = 200;

// All that a round waits for.
export function Waiting({ run, round, readsOnly, onDone }) {
  const asked = waiting(round);
  const actions = asked.filter((each) => !each.question);
  const isMany = asked.length > MOST_OPEN;
  if (run.status !== "waiting") return null;
  return html`${round.approval?.state === "asked" && (readsOnly
    ? html`<p class="wait banner">The plan waits for an approval: <code>podium decide ${shortId(run.id)} approve</code> approves it, and <code>podium decide ${shortId(run.id)} refuse</code> refuses it.</p>`
    : html`<${Approval} run=${run} round=${round} key=${round.number} onDone=${onDone} />`)}
  ${actions.length > 1 && !readsOnly && html`<${All} run=${run} round=${round} actions=${actions} onDone=${onDone} />`}
  ${asked.slice(0, MOST).map((each) => html`<${Asked} key=${`${round.number}.${each.index}`} run=${run} round=${round} step=${each} readsOnly=${readsOnly} isShut=${isMany} onDone=${onDone} />`)}
  ${asked.length > MOST && html`<p class="dim">and ${count(asked.length - MOST)} more</p>`}`;
}

// What one step, item or turn waits for.
export function Asked({ run, round, step, readsOnly, isShut = false, onDone }) {
  const form = readsOnly
    ? html`<p class="wait banner">${command(run, step)}</p>`
    : html`<${step.question ? Question : ActionApproval} run=${run} round=${round} step=${step} onDone=${onDone} />`;
  const [isOpen, setOpen] = useState(!isShut);
  if (!isShut) return form;
  return html`<details class="asked" open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>Step ${nameOf(step)} ${step.question ? "asks" : "waits for an approval"}: <code>${line(step.asked, 100)}</code></summary>${isOpen && form}</details>`;
}

function command(run, step) {
  const [id, name] = [shortId(run.id), nameOf(step)];
  if (step.question) return html`Step ${name} asks: <code>${line(step.asked)}</code> Answer with <code>podium decide ${id} --answer TEXT --action ${step.index}</code>.`;
  return html`Step ${name} waits for an approval: <code>podium decide ${id} --action ${step.index} approve</code> or <code>refuse</code>. It is asked to do: <code>${line(step.asked)}</code>`;
}

// Sends a decision. Also after an error, the page looks again: perhaps another person has decided.
const decide = (run, onDone, path, body) => async () => {
  try {
    await post(runPath(run.id, `/${path}`), body);
  } finally {
    onDone();
  }
};

function Approval({ run, round, onDone }) {
  const [draft, setDraft] = useState(null);
  const [why, setWhy] = useState("");
  const plan = draft && planOf(draft);
  const send = (path, body = {}) => decide(run, onDone, path, { why, ...body });
  const approve = draft ? ["Approve the changed plan", "main", send("edit", { plan })] : ["Approve", "main", send("approve")];
  const edit = draft
    ? html`<button onClick=${() => setDraft(null)}>Discard the changes</button>`
    : html`<button onClick=${() => setDraft(rowsOf(round.plan))}>Edit</button>`;
  return html`<${Form} label="Approval" title="The plan waits for an approval" isValid=${!draft?.fault}
    choices=${[approve, ["Refuse", "danger", send("refuse")]]} more=${edit}>
    <${Price} run=${run} plan=${plan} isValid=${!draft?.fault} />
    ${draft && html`<${Editor} workers=${run.workers} draft=${draft} setDraft=${setDraft} />`}
    <${Why} why=${why} setWhy=${setWhy} />
  <//>`;
}

// One decision on all actions and fan-outs that wait.
function All({ run, round, actions, onDone }) {
  const [why, setWhy] = useState("");
  const send = (path) => decide(run, onDone, path, { why });
  const steps = [...new Set(actions.map((each) => Number.parseInt(nameOf(each), 10)))];
  return html`<${Form} label="Approval of all" title=${`${count(actions.length)} steps wait for an approval`}
    choices=${[[`Approve all ${count(actions.length)}`, "main", send("approve")], [`Refuse all ${count(actions.length)}`, "danger", send("refuse")]]}>
    <p class="dim">Of ${steps.map((each, at) => html`${at > 0 && ", "}<a href=${stepHref(run.id, round.number, each)}>step ${each}</a>`)}. Below, each can be decided by itself. The run continues when all are decided.</p>
    <${Why} why=${why} setWhy=${setWhy} />
  <//>`;
}

function ActionApproval({ run, round, step, onDone }) {
  const [changed, setChanged] = useState(null);
  const [why, setWhy] = useState("");
  const name = `Step ${nameOf(step)}`;
  const what = step.acts ? line(run.workers[partOf(round, step).step?.worker] ?? "", 40) : "its items or turns";
  const send = (path, body = {}) => decide(run, onDone, path, { why, action: step.index, ...body });
  const more = step.acts && (changed === null
    ? html`<button onClick=${() => setChanged(step.asked)}>Change</button>`
    : html`<button onClick=${() => setChanged(null)}>Discard the change</button>`);
  const approve = changed === null ? ["Approve", send("approve")] : ["Approve the change", send("approve", { arguments: changed })];
  return html`<${Form} label=${`Approval of s${name.slice(1)}`} title=${`${name} waits for an approval: ${what}`} more=${more}
    choices=${[[approve[0], "main", approve[1]], ["Refuse", "danger", send("refuse")]]}>
    ${changed === null
      ? html`<${Text} text=${step.asked} />`
      : html`<label class="tall">What it is to do <textarea rows="4" value=${changed} onInput=${(event) => setChanged(event.target.value)}></textarea></label>`}
    <${Why} why=${why} setWhy=${setWhy} />
  <//>`;
}

// The question of a step for a person: a choice, a field for each key of an object, or a text. The server
// checks the answer.
function Question({ run, step, onDone }) {
  const [answer, setAnswer] = useState("");
  const [{ values, isValid }, setValues] = useState({ values: {}, isValid: true });
  const [why, setWhy] = useState("");
  const { choices, returns, until } = step.question;
  const options = choices.length ? choices : (returns?.enum ?? []).filter((each) => typeof each === "string");
  const hasFields = !options.length && fieldsOf(returns) !== null;
  const send = (path, body) => decide(run, onDone, path, { why, action: step.index, ...body });
  const said = hasFields ? JSON.stringify(values) : answer;
  return html`<${Form} label=${`Question of step ${nameOf(step)}`} title=${`Step ${nameOf(step)} asks`} isValid=${isValid}
    choices=${[["Answer", "main", send("decide", { answer: said })], ["Do not answer", "danger", send("refuse")]]}>
    <${Text} text=${step.asked} />
    ${until && html`<p class="dim">until ${new Date(until * 1000).toLocaleString()}</p>`}
    ${options.map((each) => html`<label><input type="radio" name=${`answer-${step.index}`} checked=${answer === each} onChange=${() => setAnswer(each)} />${line(each)}</label>`)}
    ${hasFields && html`<${Fields} schema=${returns} onValues=${(read, valid) => setValues({ values: read, isValid: valid })} />`}
    ${!hasFields && !options.length && html`<label>Answer <textarea rows="3" value=${answer} onInput=${(event) => setAnswer(event.target.value)}></textarea></label>`}
    ${returns && !hasFields && !options.length && html`<p class="dim">JSON of the schema <code>${line(JSON.stringify(returns), 1000)}</code></p>`}
    <${Why} why=${why} setWhy=${setWhy} />
  <//>`;
}

// Whether an action was carried out, if that is not known.
export function Ending({ run, round, step, onDone }) {
  const [why, setWhy] = useState("");
  const send = (done) => decide(run, onDone, "decide", { why, action: step.key ? `${step.index}@${step.key}` : step.index, round: round.number, done });
  return html`<${Form} label="Decision" title="Was it done?"
    choices=${[["It was done", "main", send(true)], ["It was not done", "danger", send(false)]]}>
    <p class="dim">See for yourself. If it was not done, the run carries it out.</p>
    <${Why} why=${why} setWhy=${setWhy} />
  <//>`;
}
