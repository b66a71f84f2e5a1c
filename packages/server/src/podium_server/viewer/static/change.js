// What a person does with a run: cancel, continue, repeat, change and repeat, delete.

import { post, request, runPath, tellChange } from "./api.js";
import { Editor, planOf, rowsOf } from "./editor.js";
import { nameOf, planned } from "./fold.js";
import { count, line, usd } from "./format.js";
import { Form } from "./forms.js";
import { askHref, lastList, runHref, stepHref } from "./place.js";
import { Price } from "./price.js";
import { html, useState } from "./vendor/htm-preact.js";

const OPEN = ["queued", "running"];
const LIMITS = [["cost", "USD", "any"], ["calls", "calls", 1], ["steps", "steps", 1], ["seconds", "seconds", 1]];

// The buttons of a run, and the form of the one that was pressed.
export function Changes({ run, round, onDone }) {
  const [shown, setShown] = useState(null);
  const isOpen = OPEN.includes(run.status);
  const hasPlan = Boolean(round?.plan);
  const hasEnded = !isOpen && run.status !== "waiting";  // the plan that waits is changed where it is approved
  const canResume = ["stopped", "dead", "failed", "partial"].includes(run.status);
  const pressed = (name) => () => setShown(shown === name ? null : name);
  const button = (name, words, look = "") => html`<button class=${look} aria-expanded=${shown === name} onClick=${pressed(name)}>${words}</button>`;
  const shut = () => {
    setShown(null);
    onDone();
  };
  return html`<div class="actions" role="group" aria-label="What to do with the run">
    ${isOpen && html`<${Cancel} run=${run} onDone=${onDone} />`}
    ${canResume && button("resume", "Resume…")}
    ${hasEnded && hasPlan && button("edit", "Edit and run…")}
    ${!isOpen && html`<a class="button" href=${askHref({ run: run.id })}>Ask again…</a>`}
    ${!isOpen && button("delete", "Delete…", "danger")}
  </div>
  ${shown === "resume" && canResume && html`<${Resume} run=${run} hasPlan=${hasPlan} onDone=${shut} />`}
  ${shown === "edit" && hasEnded && hasPlan && html`<${Edit} run=${run} round=${round} onDone=${shut} />`}
  ${shown === "delete" && html`<${Delete} run=${run} shut=${() => setShown(null)} />`}`;
}

function Cancel({ run, onDone }) {
  const [state, setState] = useState({ isBusy: false, error: null });
  const cancel = async () => {
    setState({ isBusy: true, error: null });
    try {
      await post(runPath(run.id, "/cancel"), {});
      setState({ isBusy: false, error: null });
    } catch (error) {
      setState({ isBusy: false, error });
    }
    onDone();
  };
  return html`<button class="danger" disabled=${state.isBusy} onClick=${cancel}>${state.isBusy ? "Cancelling…" : "Cancel"}</button>
    ${state.error && html`<span class="bad" role="alert">${state.error.message}</span>`}`;
}

// Continues a run, also with higher limits.
function Resume({ run, hasPlan, onDone }) {
  const [limits, setLimits] = useState({});
  const [refresh, setRefresh] = useState(false);
  const known = run.limits ?? {};
  const given = Object.fromEntries(Object.entries(limits).filter(([, text]) => text !== "").map(([name, text]) => [name, Number(text)]));
  const resume = async () => {
    await post(runPath(run.id, "/resume"), { limits: given, refresh, force: run.status === "dead" });
    onDone();
  };
  return html`<${Form} label="Resume" title="Continue the run" choices=${[["Resume", "main", resume]]}>
    <p class="dim">Recorded results are kept. What failed, and what was not carried out, is called again.${run.status === "dead" && " The run was given up, and is tried once more."}</p>
    ${hasPlan && html`<${Price} run=${run} />`}
    <fieldset><legend>Other limits for the whole run</legend>
      ${LIMITS.map(([name, unit, step]) => html`<label>${unit} <input type="number" min="0" step=${step} value=${limits[name] ?? ""}
        placeholder=${known[name] === null || known[name] === undefined ? "no limit" : `now ${name === "cost" ? usd(known[name]) : count(known[name])}`}
        onInput=${(event) => setLimits({ ...limits, [name]: event.target.value })} /></label>`)}
    </fieldset>
    ${run.status === "partial" && html`<label><input type="checkbox" checked=${refresh} onChange=${() => setRefresh(!refresh)} />Repeat steps that lacked an input which exists by now</label>`}
  <//>`;
}

// Carries out a changed plan: as a new run, or in this run. Only what changed is called.
function Edit({ run, round, onDone }) {
  const [draft, setDraft] = useState(() => rowsOf(round.plan));
  const plan = planOf(draft);
  const isValid = !draft.fault;
  const again = async () => {
    location.hash = runHref((await post(runPath(run.id, "/replay"), { plan })).id);
  };
  const here = async () => {
    await post(runPath(run.id, "/resume"), { plan });
    onDone();
  };
  return html`<${Form} label="Edit and run" title="Change the plan, and run it" isValid=${isValid}
    choices=${[["Run as a new run", "main", again], ["Change this run", "", here]]}>
    <p class="dim">Results of steps whose worker, subtask and inputs stay the same are reused, and actions are not repeated.</p>
    <${Editor} workers=${run.workers} draft=${draft} setDraft=${setDraft} />
    <${Price} run=${run} plan=${plan} isValid=${isValid} />
  <//>`;
}

function Delete({ run, shut }) {
  const remove = async () => {
    await request("DELETE", runPath(run.id));
    tellChange();
    location.hash = lastList();
  };
  return html`<${Form} label="Delete" title="Delete the run?" choices=${[["Delete for good", "danger", remove]]} more=${html`<button onClick=${shut}>Keep it</button>`}>
    <p>Its texts, and the runs nested in it, are deleted. Nobody can restore them.</p>
  <//>`;
}

// In the panel of a step: repeats the run from there on, as a new run.
export function From({ run, round, step }) {
  const [error, setError] = useState(null);
  const isOpen = OPEN.includes(run.status) || run.status === "waiting";
  const index = Number.parseInt(nameOf(step), 10);
  if (isOpen || !round.plan || step.parent || index >= round.plan.steps.length) return null;
  const repeat = async () => {
    try {
      location.hash = runHref((await post(runPath(run.id, "/replay"), { step: index, round: round.number })).id);
    } catch (failure) {
      setError(failure);
    }
  };
  return html`<p><button onClick=${repeat} title="A new run calls this step, and all that depends on it, again. Other results are reused, and actions are not repeated.">Run again from this step</button></p>
    ${error && html`<p class="bad banner" role="alert">${error.message}</p>`}`;
}

// Why a run is not ok: which steps failed, and what became of its process.
export function Reasons({ run }) {
  if (["loading", "queued", "running", "waiting", "ok"].includes(run.status)) return null;
  const bad = run.rounds.flatMap((round) => planned(round).filter((step) => step.outcome?.status === "failed").map((step) => [round, step]));
  const died = run.status === "dead"
    ? `The run was given up, because its process died ${count(run.recoveries)} times. Look for the reason before you resume it.`
    : run.status === "stopped" && !run.problem && "Its process died, or lost its connection to the journal. If a server began it in the background, a server continues it within a minute; else resume it.";
  // The problem of the run may quote those of its steps.
  const told = (problem) => (problem && !run.problem?.message.includes(problem.message) ? html`: <code>${line(problem.code, 40)}</code> ${line(problem.message, 300)}` : ".");
  return html`${died && html`<p class="wait banner">${died}</p>`}
    ${bad.length > 0 && html`<ul class="reasons">${bad.slice(0, 5).map(([round, step]) => html`<li>
      <a href=${stepHref(run.id, round.number, nameOf(step))}>Step ${nameOf(step)}${run.rounds.length > 1 && ` of round ${round.number}`}</a> (${line(step.outcome.worker, 40)}) failed${told(step.outcome.problem)}</li>`)}
      ${bad.length > 5 && html`<li>and ${count(bad.length - 5)} more</li>`}</ul>`}`;
}
