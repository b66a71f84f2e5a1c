// A plan that a person changes: a row for each step, also inside of blocks, or the whole plan as JSON.

import { rulesOf } from "./executions.js";
import { Fields } from "./forms.js";
import { line } from "./format.js";
import { html, useState } from "./vendor/htm-preact.js";

// With one of these keys, steps refer to others in more places than in their lists and subtasks.
const WORKFLOW = ["steps", "each", "when", "returns"];
let made = 0;

// The draft of a plan: its rows, why its JSON cannot be read, or null, and what makes it a saved plan.
export const rowsOf = ({ steps, name, parameters, args }) => ({ rows: steps.map(rowOf), fault: null, saved: { name, parameters, args } });

// The plan of a draft. The server checks it; a word that is not a number is sent as it is, so that the error
// names it.
export const planOf = (draft) => ({ ...draft.saved, steps: draft.rows.map(stepOf) });

export function Editor({ workers, draft, setDraft }) {
  const [text, setText] = useState(null);
  const write = (written) => {
    setText(written);
    try {
      setDraft(rowsOf({ ...draft.saved, steps: JSON.parse(written) }));
    } catch (error) {
      setDraft({ ...draft, fault: error.message });
    }
  };
  const asRows = () => {
    setText(null);
    setDraft({ ...draft, fault: null });
  };
  const isPlain = draft.rows.every((row) => WORKFLOW.every((key) => row[key] === undefined));
  const setRows = (rows) => setDraft({ ...draft, rows });
  if (text !== null) {
    return html`<label class="tall">Steps as JSON <textarea class="code" rows="16" spellcheck="false" value=${text} onInput=${(event) => write(event.target.value)}></textarea></label>
      ${draft.fault && html`<p class="bad" role="alert">This is not a list of steps: ${line(draft.fault)}</p>`}
      <p><button onClick=${asRows}>Edit as a form</button> <span class="dim">${draft.fault ? "What cannot be read is lost." : "Workers are numbers or names."}</span></p>`;
  }
  const { parameters, args } = draft.saved;
  const setArgs = (given, isValid) => setDraft({ ...draft, fault: isValid ? null : "an argument is not JSON", saved: { ...draft.saved, args: given } });
  return html`${parameters && html`<${Fields} schema=${{ type: "object", properties: parameters, required: Object.keys(parameters) }} values=${args} onValues=${setArgs} />`}
    <${Rows} workers=${workers} rows=${draft.rows} setRows=${setRows} canRemove=${isPlain} />
    <div class="actions"><button onClick=${() => setRows([...draft.rows, rowOf({ worker: 0, subtask: "", access: [] })])}>Add a step</button>
      <button onClick=${() => setText(`[\n${planOf(draft).steps.map((each) => ` ${JSON.stringify(each)}`).join(",\n")}\n]`)}>Edit as JSON</button></div>
    <p class="dim">The last step writes the answer. If you remove a step, the lists and the <code>{{n}}</code> of the other steps get the new numbers.${!isPlain && " Lists, conditions, turns and types, and steps that are added or removed in such a plan, are changed as JSON."}</p>`;
}

function Rows({ workers, rows, setRows, canRemove, around = "" }) {
  const change = (index, changed) => setRows(rows.map((row, at) => (at === index ? { ...row, ...changed } : row)));
  return html`<ol class="editor" start="0">${rows.map((row, index) => {
    const name = `${around}${index}`;
    return html`<li key=${row.key}>
      ${row.steps ? html`<span>${row.plan ? `Saved plan ${line(row.plan, 40)}` : "Block"} </span>` : html`<select aria-label=${`Worker of step ${name}`} value=${workers.includes(row.worker) ? workers.indexOf(row.worker) : row.worker} onChange=${(e) => change(index, { worker: Number(e.target.value) })}>
        ${workers.map((each, number) => html`<option value=${number}>${each}</option>`)}</select>`}
      <input aria-label=${`Steps that step ${name} sees`} placeholder="sees, as in 0, 1" value=${row.access} onInput=${(e) => change(index, { access: e.target.value })} />
      ${canRemove && html`<button class="quiet" aria-label=${`Remove step ${name}`} disabled=${rows.length === 1} onClick=${() => setRows(without(rows, index))}>Remove</button>`}
      ${row.steps
        ? html`<${Rows} workers=${workers} rows=${row.steps} around=${`${name}.`} setRows=${(steps) => change(index, { steps })} />`
        : html`<textarea aria-label=${`Subtask of step ${name}`} rows="2" value=${row.subtask} onInput=${(e) => change(index, { subtask: e.target.value })}></textarea>`}
      ${rulesOf({ ...row, access: wordsOf(row.access) }).length > 0 && html`<span class="dim">Runs ${line(rulesOf({ ...row, access: wordsOf(row.access) }).join(", "), 300)}</span>`}
    </li>`;
  })}</ol>`;
}

function rowOf(step) {
  const inside = step.steps ? { steps: step.steps.map(rowOf) } : {};
  return { ...step, ...inside, access: (step.access ?? []).join(", "), key: (made += 1) };
}

function stepOf({ key, ...row }) {
  const step = { ...row, access: wordsOf(row.access).map((each) => (isNumber(each) ? Number(each) : each)) };
  if (row.steps) step.steps = row.steps.map(stepOf);
  if (step.each === undefined && step.enough > step.access.length) delete step.enough;
  return step;
}

// The rows without one of them. The later rows get new numbers, and the row leaves the lists. A {{n}} that
// stands for its output is changed so that the server refuses it: only a person knows what to write instead.
function without(rows, index) {
  const moved = (number) => (number > index ? number - 1 : number);
  const reference = (found, number) => {
    if (number === undefined) return found;
    return Number(number) === index ? `{{${number}, removed}}` : `{{${moved(Number(number))}}}`;
  };
  return rows.filter((_, at) => at !== index).map((row) => ({
    ...row,
    access: wordsOf(row.access).filter((each) => !isNumber(each) || Number(each) !== index).map((each) => (isNumber(each) ? moved(Number(each)) : each)).join(", "),
    subtask: row.subtask.replace(/\\\{\{|\{\{\s*(\d+)\s*\}\}/g, reference),
  }));
}

const wordsOf = (text) => text.split(/[\s,]+/).filter(Boolean);
const isNumber = (word) => /^\d+$/.test(word);
