// Numbers, times and texts for people.

const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

// Shows characters that are invisible, or change the order of a text, by their codes.
export function visible(text) {
  return text.replace(/\r\n/g, "\n").replace(UNSAFE, (each) => `‹U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

export function line(text, most = 200) {
  const whole = text.slice(0, 4 * most).replace(/\s+/g, " ").trim();
  return visible(whole.length > most ? `${whole.slice(0, most - 1).trim()}…` : whole);
}

// Some statements as sentences: with a capital at the start and a full stop at the end.
export function sentences(...told) {
  return told.filter(Boolean).map((each) => `${each[0].toUpperCase()}${each.slice(1)}${/[.?!…]$/.test(each) ? "" : "."}`).join(" ");
}

export function usd(cost) {
  if (cost === null || cost === undefined) return "unknown";
  if (cost === 0) return "$0";
  return cost < 0.01 ? `$${cost.toPrecision(2)}` : `$${cost.toFixed(cost < 1 ? 4 : 2)}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const whole = Math.round(value);
  return whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

// A time that goes on: its last digit would change with each drawing.
export const elapsed = (value) => (value < 60 ? `${Math.floor(value)} s` : seconds(Math.floor(value)));

export const count = (value) => value.toLocaleString("en");

export function tokens(usage) {
  return `${count(usage.input_tokens)} read, ${count(usage.output_tokens)} written`;
}

export function when(at, now = Date.now() / 1000) {
  const ago = now - at;
  if (ago < 5) return "now";
  if (ago < 60) return `${Math.floor(ago)} s ago`;
  if (ago < 3600) return `${Math.floor(ago / 60)} min ago`;
  if (ago < 86400) return `${Math.floor(ago / 3600)} h ago`;
  return new Date(at * 1000).toLocaleDateString("en", { year: "numeric", month: "short", day: "numeric" });
}

export const exactly = (at) => new Date(at * 1000).toLocaleString();
export const shortId = (id) => (/^[0-9a-f]{32}$/.test(id) ? id.slice(0, 12) : line(id, 40));
