// Texts of models and people: always text, never HTML.

import { count, sentences, visible } from "./format.js";
import { html, useState } from "./vendor/htm-preact.js";

const MOST = 20_000;
const TAIL = 4000;  // a long text that grows would be laid out again with each piece

export function Text({ text, isWriting = false }) {
  const [isWhole, setWhole] = useState(false);
  if (!text) return html`<p class="dim">${isWriting ? "Nothing is written yet." : "(empty)"}</p>`;
  if (isWriting) return html`<${Growing} text=${text} />`;
  const shown = isWhole || text.length <= MOST ? text : text.slice(0, MOST);
  return html`<pre class="text" tabindex="0">${visible(shown)}</pre>
    ${shown.length < text.length && html`<button class="quiet" onClick=${() => setWhole(true)}>
      Show all ${count(text.length)} characters</button>`}`;
}

function Growing({ text }) {
  const isCut = text.length > TAIL;
  return html`${isCut && html`<p class="dim">The last ${count(TAIL)} of ${count(text.length)} characters</p>`}
    <pre class="text writing" tabindex="0"><span>${visible(isCut ? text.slice(-TAIL) : text)}</span></pre>`;
}

export function Trouble({ problem }) {
  if (!problem) return null;
  if (problem.code === "waiting") return html`<p class="wait banner" role="status">${sentences(visible(problem.message))}</p>`;
  return html`<p class="bad banner"><code>${visible(problem.code)}</code> ${visible(problem.message)}</p>`;
}
