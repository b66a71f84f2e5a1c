// Forms: a section with buttons that send something, and fields for the values of a JSON schema.

import { line } from "./format.js";
import { html, useState } from "./vendor/htm-preact.js";

// A section with a button for each choice: its words, its look, and what it does. An error is told, and the
// form keeps what the person has written.
export function Form({ label, title, choices, more, isValid = true, tone = "", children }) {
  const [state, setState] = useState({ isBusy: false, error: null });
  const choose = async (act) => {
    setState({ isBusy: true, error: null });
    let error = null;
    try {
      await act();
    } catch (failure) {
      error = failure;
    }
    setState({ isBusy: false, error });
  };
  const [first, ...others] = choices.map(([words, look, act]) =>
    html`<button class=${look} disabled=${state.isBusy || (!isValid && look !== "danger")} onClick=${() => choose(act)}>${words}</button>`);
  return html`<section class=${`approval ${tone}`} aria-label=${label}>
    <h2>${title}</h2>
    ${children}
    ${state.error && html`<p class="bad banner" role="alert">${state.error.message}</p>`}
    <div class="actions">${first}${more}${others}</div>
  </section>`;
}

export function Why({ why, setWhy }) {
  return html`<label>Reason <input value=${why} placeholder="optional; it is recorded" onInput=${(event) => setWhy(event.target.value)} /></label>`;
}

// The fields of an object, by their names and schemas; null for other values.
export function fieldsOf(schema) {
  const found = schema?.type === "object" ? Object.entries(schema.properties ?? {}) : [];
  return found.length ? found : null;
}

// A field for each key of an object. An empty field is left out, so that its default holds, or the server says
// that it is missing. `onValues` gets the values, and whether all can be read.
export function Fields({ schema, values, onValues }) {
  const [texts, setTexts] = useState(() => Object.fromEntries(fieldsOf(schema).map(([name, each]) => [name, textOf(each, values?.[name])])));
  const write = (name, text) => {
    const changed = { ...texts, [name]: text };
    setTexts(changed);
    const read = fieldsOf(schema).map(([each, own]) => [each, valueOf(own, changed[each])]);
    onValues(
      Object.fromEntries(read.filter(([, { value }]) => value !== undefined).map(([each, { value }]) => [each, value])),
      read.every(([, { fault }]) => !fault),
    );
  };
  return html`<div class="fields">${fieldsOf(schema).map(([name, own]) => html`<${Field} key=${name} name=${name} schema=${own}
    isNeeded=${schema.required?.includes(name)} text=${texts[name]} fault=${valueOf(own, texts[name]).fault} onText=${(text) => write(name, text)} />`)}</div>`;
}

function Field({ name, schema, isNeeded, text, fault, onText }) {
  const hint = [
    schema.description && line(schema.description, 200),
    !isNeeded && schema.default === undefined && "optional",
    isLines(schema) ? "one on each line" : !isPlain(schema) && `JSON: ${line(JSON.stringify(shortOf(schema)), 200)}`,
  ].filter(Boolean);
  const told = html`<span>${line(name)}${hint.length > 0 && html`<span class="dim"> (${hint.join("; ")})</span>`}</span>`;
  const options = schema.enum ?? (schema.type === "boolean" ? ["yes", "no"] : null);
  const onInput = (event) => onText(event.target.value);
  const rest = schema.default === undefined ? "" : textOf(schema, schema.default);
  const number = ["number", "integer"].includes(schema.type);
  const box = isPlain(schema) && options
    ? html`<select value=${text} onChange=${onInput}><option value="">${rest && `${line(rest)} (default)`}</option>${options.map((each) => html`<option value=${each}>${line(each)}</option>`)}</select>`
    : number
    ? html`<input type="number" step=${schema.type === "integer" ? 1 : "any"} placeholder=${rest} value=${text} onInput=${onInput} />`
    : html`<textarea rows=${isPlain(schema) ? 1 : 3} placeholder=${rest} value=${text} onInput=${onInput}></textarea>`;
  return html`<label>${told}${box}</label>${fault && html`<p class="bad" role="alert">${line(name)}: ${fault}</p>`}`;
}

const isPlain = (schema) => schema.enum?.every((one) => typeof one === "string") ?? ["string", "number", "integer", "boolean"].includes(schema.type);
const isLines = (schema) => schema.type === "array" && schema.items?.type === "string" && !schema.items.enum;

// The short form of a schema, as in a saved plan.
function shortOf(schema) {
  if (schema.type === "object" && schema.properties) return Object.fromEntries(Object.entries(schema.properties).map(([name, each]) => [name, shortOf(each)]));
  if (schema.type === "array" && schema.items) return [shortOf(schema.items)];
  return schema.enum?.join("|") ?? schema.type ?? schema;
}

function textOf(schema, value) {
  if (value === undefined) return "";
  if (schema.type === "boolean") return value ? "yes" : "no";
  if (isLines(schema) && Array.isArray(value)) return value.join("\n");
  return typeof value === "string" && isPlain(schema) ? value : JSON.stringify(value);
}

// The value of a text, or why it has none.
function valueOf(schema, text) {
  if (text === "") return {};
  if (isLines(schema)) return { value: text.split("\n").map((each) => each.trim()).filter(Boolean) };
  if (isPlain(schema) && schema.type !== "boolean") return { value: ["number", "integer"].includes(schema.type) ? Number(text) : text };
  if (schema.type === "boolean") return { value: text === "yes" };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { fault: "write JSON" };
  }
}
