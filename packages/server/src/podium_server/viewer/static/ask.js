// The page that asks: a question for a model, or the arguments of a saved plan. The run is shown below, with its
// plan while it is written, so that a person can change the question and ask again.

import { get, post, runPath, useModels } from "./api.js";
import { line } from "./format.js";
import { Fields, Form } from "./forms.js";
import { askHref, replacePlace } from "./place.js";
import { RunPage } from "./run.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

const EMPTY = { model: "", question: "", earlier: [], args: {}, isValid: true, effort: "", cost: "", labels: "", waits: false, filled: 0 };
let kept = EMPTY;
let keptOf = null;  // the run whose question is in `kept`

export function Ask({ query, readsOnly }) {
  const [models, failure] = useModels();
  const [form, setForm] = useState(kept);
  const [error, setError] = useState(null);
  const change = (changed) => setForm((before) => (kept = { ...before, ...changed }));
  const id = query.run ?? null;
  useEffect(() => {
    document.title = "Ask · Podium";
    const isKnown = id === null || id === keptOf;
    if (query.model && query.model !== kept.model) change({ ...EMPTY, model: query.model, filled: kept.filled + 1 });
    if (isKnown) return;
    get(runPath(id)).then((run) => change(askedOf(run, kept.filled + 1)), setError);
    keptOf = id;
  }, [id, query.model]);
  if (models === null && failure) return html`<p class="note" role="alert">The models cannot be shown. ${failure.message}</p>`;
  if (models === null) return html`<p class="note" role="status">Loading the models…</p>`;
  if (!models.length) return html`<p class="note">Your key may call no model.</p>`;
  const model = models.find((each) => each.id === form.model) ?? models[0];
  const ask = async () => {
    const run = await post("/v1/runs", bodyOf(form, model));
    keptOf = run.id;
    location.hash = askHref({ run: run.id });
  };
  return html`<div class="ask">
    <div class="body">
      ${error && html`<p class="bad banner" role="alert">${error.message}</p>`}
      <${Question} key=${form.filled} models=${models} model=${model} form=${form} change=${change} ask=${ask} />
    </div>
    ${id && html`<${RunPage} key=${id} id=${id} readsOnly=${readsOnly} isInside=${true} />`}
  </div>`;
}

function Question({ models, model, form, change, ask }) {
  const schema = model.podium.parameters ?? null;
  const missing = (schema?.required ?? []).filter((name) => form.args[name] === undefined);
  const isValid = schema ? form.isValid && !missing.length : form.question.trim() !== "";
  const choose = (event) => {
    change({ model: event.target.value, args: {}, isValid: true, effort: "" });
    replacePlace(askHref({ model: event.target.value }));
  };
  const enter = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && isValid && event.currentTarget.querySelector(".actions .main").click();
  const plans = models.filter((each) => each.podium.parameters);
  const others = models.filter((each) => !each.podium.parameters);
  const option = (each) => html`<option value=${each.id}>${line(each.id.replace(/^plan\//, ""), 60)}</option>`;
  const more = html`<label class="inline"><input type="checkbox" checked=${form.waits} onChange=${() => change({ waits: !form.waits })} />First show me the plan and its price</label>`;
  return html`<div onKeyDown=${enter}><${Form} label="Ask" title="Ask" tone="plain" isValid=${isValid} choices=${[[schema ? "Run the plan" : "Ask", "main", ask]]} more=${more}>
    <label>Model <select value=${model.id} onChange=${choose}>
      ${plans.length ? html`<optgroup label="Models">${others.map(option)}</optgroup><optgroup label="Saved plans">${plans.map(option)}</optgroup>` : others.map(option)}</select></label>
    ${form.model && form.model !== model.id && html`<p class="wait banner" role="status">Your key cannot ask the model ${line(form.model, 60)}: choose another.</p>`}
    ${model.description && html`<p class="dim">${line(model.description, 400)}</p>`}
    ${model.podium.acts && html`<p class="dim">It may act: some of its workers change things outside of the run.</p>`}
    ${schema
      ? html`<${Fields} key=${model.id} schema=${schema} values=${form.args} onValues=${(args, valid) => change({ args, isValid: valid })} />`
      : html`${form.earlier.length > 0 && html`<p class="dim">After ${form.earlier.length} earlier messages of the conversation. <button class="quiet" onClick=${() => change({ earlier: [] })}>Leave them out</button></p>`}
        <label class="tall">Question <textarea rows="4" value=${form.question} onInput=${(event) => change({ question: event.target.value })}></textarea></label>`}
    <details><summary>Options</summary><div class="fields">
      ${model.efforts.length > 0 && html`<label>Effort <select value=${form.effort} onChange=${(event) => change({ effort: event.target.value })}><option value="">default</option>${model.efforts.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>`}
      <label><span>At most <span class="dim">(USD)</span></span> <input type="number" min="0" step="any" placeholder="the limit of the model" value=${form.cost} onInput=${(event) => change({ cost: event.target.value })} /></label>
      <label><span>Labels <span class="dim">(separated by commas)</span></span> <input value=${form.labels} onInput=${(event) => change({ labels: event.target.value })} /></label>
    </div></details>
  <//></div>`;
}

function bodyOf(form, model) {
  const text = model.podium.parameters ? JSON.stringify(form.args) : form.question;
  const labels = form.labels.split(",").map((each) => each.trim()).filter(Boolean);
  const isTalk = form.earlier.length > 0 && !model.podium.parameters;
  return {
    model: model.id,
    query: isTalk ? [...form.earlier, { role: "user", content: text }] : text,
    only_plans: form.waits,
    ...(labels.length && { labels }),
    ...(form.effort && { effort: form.effort }),
    ...(form.cost !== "" && { limits: { cost: Number(form.cost) } }),
  };
}

// The form that asks what a run was asked. Images of its question are left out.
function askedOf(run, filled) {
  const at = run.query.findLastIndex((each) => each.role === "user");
  const content = run.query[at]?.content ?? "";
  const text = typeof content === "string" ? content : content.map((part) => part.text ?? "").join("\n");
  return { ...EMPTY, model: run.model, question: text, earlier: run.query.slice(0, Math.max(at, 0)), args: argsOf(text), labels: run.labels.join(", "), filled };
}

function argsOf(text) {
  try {
    const args = JSON.parse(text);
    return typeof args === "object" && args !== null && !Array.isArray(args) ? args : {};
  } catch {
    return {};
  }
}
