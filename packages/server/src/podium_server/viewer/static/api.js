// Requests to the server, with the CSRF token of the session, or the token of `podium show --open`.

import { useEffect, useState } from "./vendor/htm-preact.js";

const TOKEN = "podium-token";
const MOST_SKEW = 2000;  // milliseconds; the header Date has whole seconds
const NAME = "podium-run-changed";

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let csrf = null;
let skew = 0;
let refused = () => {};

// Calls `act` when the server refuses a request because the session has ended.
export function whenRefused(act) {
  refused = act;
}

// The time of the server in seconds of Unix time. The clock of this machine may be wrong.
export const serverNow = () => (Date.now() + skew) / 1000;

// `podium show --open` writes an address with a token. The page keeps the token, and removes it from the address.
export function takeToken() {
  const found = /^#\/open\/([^/]+)(.*)$/.exec(location.hash);
  if (found === null) return;
  localStorage.setItem(TOKEN, found[1]);
  history.replaceState(null, "", `#${found[2]}`);
}

export async function request(method, path, { body, headers = {}, signal } = {}) {
  const sent = { ...headers };
  const token = localStorage.getItem(TOKEN);
  if (token !== null) sent.authorization = `Bearer ${token}`;
  if (body !== undefined) sent["content-type"] = "application/json";
  if (csrf !== null && method !== "GET") sent["x-podium-csrf"] = csrf;
  let response;
  try {
    const text = body === undefined ? undefined : JSON.stringify(body);
    response = await fetch(path, { method, headers: sent, body: text, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not answer. Check that it is running.");
  }
  const ahead = Date.parse(response.headers.get("date")) - Date.now();
  skew = Math.abs(ahead) > MOST_SKEW ? ahead : 0;
  if (response.status === 401 && path !== "/session") refused();
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function errorOf(response) {
  let told = {};
  try {
    told = (await response.json()).error ?? {};
  } catch {
    // A proxy may answer with HTML; the status is then all that is known.
  }
  return new ApiError(response.status, told.code, told.message ?? `The server answered ${response.status}.`);
}

export async function get(path, options) {
  return (await request("GET", path, options)).json();
}

export async function post(path, body) {
  return (await request("POST", path, { body })).json();
}

// Returns whether the server is open to this browser, and the session, if there is one.
export async function findSession() {
  return keep(await get("/session"));
}

export async function login(key) {
  return keep(await post("/session", { key }));
}

export async function logout() {
  await request("DELETE", "/session");
  csrf = null;
}

function keep(session) {
  csrf = session.csrf;
  if (!session.reads_only) localStorage.removeItem(TOKEN);  // it is of an earlier server at this address
  return session;
}

export const runPath = (id, rest = "") => `/v1/runs/${encodeURIComponent(id)}${rest}`;

export function listRuns(filters, after = null, limit = 100, signal = undefined) {
  const query = new URLSearchParams({ limit });
  for (const [name, value] of Object.entries(filters)) if (value) query.set(name, value);
  if (after !== null) query.set("after", after);
  return get(`/v1/runs?${query}`, { signal });
}

// Tells the parts of the page that show sums of runs that a run has begun or ended.
export const tellChange = () => dispatchEvent(new Event(NAME));

export function onChange(act) {
  addEventListener(NAME, act);
  return () => removeEventListener(NAME, act);
}

let known = null;  // the models of the server that the person may call

// Returns the models, null while they are loaded, and an error.
export function useModels(isOn = true) {
  const [found, setFound] = useState([known, null]);
  useEffect(() => {
    if (isOn) get("/v1/models").then((list) => setFound([(known = list.data), null]), (error) => setFound([known, error]));
  }, []);
  return found;
}
