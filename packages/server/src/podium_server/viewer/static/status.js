// The status of a run or step, by a shape, a word and a colour.

import { html } from "./vendor/htm-preact.js";

const SHAPES = {
  ok: html`<path d="M2.5 6.5 5 9l4.5-5.5" />`,
  partial: html`<path d="M2 6h8" /><path d="M6 2v8" />`,
  failed: html`<path d="M3 3l6 6M9 3l-6 6" />`,
  dead: html`<path d="M3 3l6 6M9 3l-6 6" />`,
  running: html`<circle cx="6" cy="6" r="3.5" /><path class="spin" d="M6 2.5A3.5 3.5 0 0 1 9.5 6" />`,
  waiting: html`<path d="M4 3v6M8 3v6" />`,
  queued: html`<path d="M2.5 3.5h7M2.5 6h7M2.5 8.5h4" />`,
  stopped: html`<path d="M3.5 3.5h5v5h-5z" />`,
  cancelled: html`<path d="M3.5 3.5h5v5h-5z" />`,
  skipped: html`<path d="M2.5 3l3 3-3 3M6.5 3l3 3-3 3" />`,
  pending: html`<circle cx="6" cy="6" r="3" />`,
};

export const glyph = (status) => SHAPES[status] ?? SHAPES.pending;

// The end of an action in words.
export const ENDS = { done: "done", failed: "failed", unknown: "not known whether it was done", not_done: "not carried out" };

export function Badge({ status }) {
  return html`<span class=${`badge s-${status}`}><svg viewBox="0 0 12 12" aria-hidden="true">${glyph(status)}</svg>${status}</span>`;
}
