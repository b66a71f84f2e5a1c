// Texts of models and people: always text, never HTML.

import { count, visible } from "./format.js";
import { html, useState } from "./vendor/htm-preact.js";

const MOST = 20_000;

export function Text({ text, isWriting = false }) {
  const [isWhole, setWhole] = useState(false);
  if (!text) return html`<p class="dim">${isWriting ? "Nothing is written yet." : "(empty)"}</p>`;
  const shown = isWhole || text.length <= MOST ? text : text.slice(0, MOST);
  return html`<pre class=${isWriting ? "text writing" : "text"} tabindex="0">${visible(shown)}</pre>
    ${shown.length < text.length && html`<button class="quiet" onClick=${() => setWhole(true)}>
      Show all ${count(text.length)} characters</button>`}`;
}

export function Trouble({ problem }) {
  if (!problem) return null;
  return html`<p class="bad banner"><code>${visible(problem.code)}</code> ${visible(problem.message)}</p>`;
}
