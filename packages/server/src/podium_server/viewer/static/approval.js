// A plan or an action that waits: approve it, change it, or refuse it.

import { post, runPath } from "./api.js";
import { partOf, rulesOf } from "./executions.js";
import { nameOf } from "./fold.js";
import { line } from "./format.js";
import { Text } from "./text.js";
import { html, useState } from "./vendor/htm-preact.js";

export function Approval({ run, round, onDone }) {
  const [draft, setDraft] = useState(null);
  const approve = draft
    ? ["edit", "Approve the changed plan", "main", { plan: { steps: draft.map(stepOf) } }]
    : ["approve", "Approve", "main", {}];
  const edit = draft
    ? html`<button onClick=${() => setDraft(null)}>Discard the changes</button>`
    : html`<button onClick=${() => setDraft(round.plan.steps.map(rowOf))}>Edit</button>`;
  return html`<${Decision} label="Approval" run=${run} onDone=${onDone} title="The plan waits for an approval"
    choices=${[approve, ["refuse", "Refuse", "danger", {}]]} more=${edit}>
    ${draft && html`<${Editor} workers=${run.workers} draft=${draft} setDraft=${setDraft} />`}
  <//>`;
}

export function ActionApproval({ run, round, step, onDone }) {
  const name = `Step ${nameOf(step)}`;
  const what = step.acts ? line(run.workers[partOf(round, step).step?.worker] ?? "", 40) : "its items or turns";
  return html`<${Decision} label=${`Approval of s${name.slice(1)}`} run=${run} onDone=${onDone}
    title=${`${name} waits for an approval: ${what}`}
    choices=${[["approve", "Approve", "main", { action: step.index }], ["refuse", "Refuse", "danger", { action: step.index }]]}>
    <${Text} text=${step.asked} />
  <//>`;
}

// A form with a reason, and a button for each choice: path, words, look, and the rest of the body.
export function Decision({ label, run, title, choices, more, onDone, children }) {
  const [why, setWhy] = useState("");
  const [state, setState] = useState({ isBusy: false, error: null });
  const decide = async (path, body) => {
    setState({ isBusy: true, error: null });
    try {
      await post(runPath(run.id, `/${path}`), { why, ...body });
    } catch (error) {
      setState({ isBusy: false, error });
    }
    onDone();  // also after an error: perhaps another person has decided
  };
  const [first, ...others] = choices.map(([path, words, look, body]) =>
    html`<button class=${look} disabled=${state.isBusy} onClick=${() => decide(path, body)}>${words}</button>`);
  return html`<section class="approval" aria-label=${label}>
    <h2>${title}</h2>
    ${children}
    <label>Reason <input value=${why} placeholder="optional; it is recorded" onInput=${(event) => setWhy(event.target.value)} /></label>
    ${state.error && html`<p class="bad banner" role="alert">${state.error.message}</p>`}
    <div class="actions">${first}${more}${others}</div>
  </section>`;
}

function Editor({ workers, draft, setDraft }) {
  const isPlain = draft.every((row) => WORKFLOW.every((key) => row[key] === undefined));
  const change = (index, changed) => setDraft(draft.map((row, at) => (at === index ? { ...row, ...changed } : row)));
  return html`<ol class="editor" start="0">${draft.map((row, index) => html`<li key=${row.key}>
    ${row.steps ? html`<span>Step ${index}: a block of ${row.steps.length} steps</span> ` : html`<select aria-label=${`Worker of step ${index}`} value=${row.worker} onChange=${(e) => change(index, { worker: Number(e.target.value) })}>
      ${workers.map((name, number) => html`<option value=${number}>${name}</option>`)}</select>`}
    <input aria-label=${`Steps that step ${index} sees`} placeholder="sees, as in 0, 1" value=${row.access} onInput=${(e) => change(index, { access: e.target.value })} />
    <button class="quiet" aria-label=${`Remove step ${index}`} disabled=${draft.length === 1 || !isPlain} onClick=${() => setDraft(without(draft, index))}>Remove</button>
    ${!row.steps && html`<textarea aria-label=${`Subtask of step ${index}`} rows="2" value=${row.subtask} onInput=${(e) => change(index, { subtask: e.target.value })}></textarea>`}
    ${rulesOf(row).length > 0 && html`<span class="dim">Runs ${line(rulesOf(row).join(", "), 300)}</span>`}
  </li>`)}</ol>
  <p><button onClick=${() => setDraft([...draft, rowOf({ worker: 0, subtask: "", access: [] })])}>Add a step</button>
    <span class="dim"> The last step writes the answer. If you remove a step, the lists and the <code>{{n}}</code> of the other steps get the new numbers.${!isPlain && " No step of a plan with maps, conditions, blocks or typed outputs can be removed here."}</span></p>`;
}

// With one of these keys, steps refer to others in more places than in their lists and subtasks.
const WORKFLOW = ["steps", "each", "when", "returns"];
let made = 0;
const rowOf = (step) => ({ ...step, access: step.access.join(", "), key: (made += 1) });

// The rows without one of them. The later rows get new numbers, and the row leaves the lists. A {{n}} that
// stands for its output is changed so that the server refuses it: only a person knows what to write instead.
function without(draft, index) {
  const moved = (number) => (number > index ? number - 1 : number);
  const reference = (found, number) => {
    if (number === undefined) return found;
    return Number(number) === index ? `{{${number}, removed}}` : `{{${moved(Number(number))}}}`;
  };
  return draft.filter((_, at) => at !== index).map((row) => ({
    ...row,
    access: wordsOf(row.access).filter((each) => !isNumber(each) || Number(each) !== index).map((each) => (isNumber(each) ? moved(Number(each)) : each)).join(", "),
    subtask: row.subtask.replace(/\\\{\{|\{\{\s*(\d+)\s*\}\}/g, reference),
  }));
}

const wordsOf = (text) => text.split(/[\s,]+/).filter(Boolean);
const isNumber = (word) => /^\d+$/.test(word);

// The server checks the plan; a word that is not a number is sent as it is, so that the error names it.
function stepOf({ key, ...row }) {
  const step = { ...row, access: wordsOf(row.access).map((each) => (isNumber(each) ? Number(each) : each)) };
  if (step.each === undefined && step.enough > step.access.length) delete step.enough;
  return step;
}
