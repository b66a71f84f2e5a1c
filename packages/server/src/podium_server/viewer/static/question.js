// The question of a step for a person: a choice, a field for each key of a flat object, or a text.

import { Decision } from "./approval.js";
import { nameOf } from "./fold.js";
import { line } from "./format.js";
import { Text } from "./text.js";
import { html, useState } from "./vendor/htm-preact.js";

// The server checks the answer.
export function Question({ run, step, onDone }) {
  const [answer, setAnswer] = useState("");
  const [values, setValues] = useState({});
  const { choices, returns, until } = step.question;
  const options = choices.length ? choices : (returns?.enum ?? []).filter((each) => typeof each === "string");
  const fields = options.length ? null : fieldsOf(returns);
  const said = fields ? JSON.stringify(values) : answer;
  return html`<${Decision} label=${`Question of step ${nameOf(step)}`} run=${run} onDone=${onDone} title=${`Step ${nameOf(step)} asks`}
    choices=${[["decide", "Answer", "main", { action: step.index, answer: said }], ["refuse", "Do not answer", "danger", { action: step.index }]]}>
    <${Text} text=${step.asked} />
    ${until && html`<p class="dim">until ${new Date(until * 1000).toLocaleString()}</p>`}
    ${options.map((each) => html`<label><input type="radio" name="answer" checked=${answer === each} onChange=${() => setAnswer(each)} />${line(each)}</label>`)}
    ${fields?.map(([name, schema]) => html`<${Field} name=${name} schema=${schema} isNeeded=${returns.required?.includes(name)}
      onValue=${(value) => setValues(({ [name]: _, ...others }) => (value === undefined ? others : { ...others, [name]: value }))} />`)}
    ${!fields && !options.length && html`<label>Answer <textarea rows="3" value=${answer} onInput=${(event) => setAnswer(event.target.value)}></textarea></label>`}
    ${returns && !fields && !options.length && html`<p class="dim">JSON of the schema <code>${line(JSON.stringify(returns), 1000)}</code></p>`}
  <//>`;
}

// The keys of an object whose values are all texts, numbers, yes or no, or choices of texts; else null.
function fieldsOf(schema) {
  const found = schema?.type === "object" ? Object.entries(schema.properties ?? {}) : [];
  const isFlat = ([, each]) => each.enum?.every((one) => typeof one === "string") ?? ["string", "number", "integer", "boolean"].includes(each.type);
  return found.length && found.every(isFlat) ? found : null;
}

// An empty field is left out, so that the server says which one is missing.
function Field({ name, schema, isNeeded, onValue }) {
  const words = html`${line(name)}${schema.description && `: ${line(schema.description, 200)}`}${!isNeeded && html`<span class="dim"> (optional)</span>`}`;
  const options = schema.enum ?? (schema.type === "boolean" ? ["yes", "no"] : null);
  const read = (text) => {
    if (text === "") return undefined;
    if (schema.enum || schema.type === "string") return text;
    return schema.type === "boolean" ? text === "yes" : Number(text);
  };
  const onInput = (event) => onValue(read(event.target.value));
  if (options) return html`<label>${words} <select onChange=${onInput}><option></option>${options.map((each) => html`<option value=${each}>${line(each)}</option>`)}</select></label>`;
  return html`<label>${words} <input type=${schema.type === "string" ? "text" : "number"} step=${schema.type === "integer" ? 1 : "any"} onInput=${onInput} /></label>`;
}
