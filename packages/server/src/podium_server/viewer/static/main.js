// The frame of the viewer: the session, the place, the theme and the keyboard.

import { findSession, get, login, logout, onChange, takeToken, whenRefused } from "./api.js";
import { Ask } from "./ask.js";
import { Compare } from "./compare.js";
import { exactly, usd } from "./format.js";
import { HELP, useKeys } from "./keys.js";
import { lastList, usePlace } from "./place.js";
import { RunPage } from "./run.js";
import { Runs } from "./runs.js";
import { SumsPage } from "./sums.js";
import { html, render, useEffect, useState } from "./vendor/htm-preact.js";

const NAME = "podium-theme";
const ORDER = ["system", "light", "dark"];
const REFRESH = 5000;
const SETTLED = 500;  // the bill of a run comes after its last event
const WIDTH = 40;

function App() {
  const [access, setAccess] = useState({ state: "loading", session: null, error: null });
  const [shade, setShade] = useState(theme());
  const [isHelp, setHelp] = useState(false);
  const place = usePlace();
  const change = () => setShade(nextTheme());
  useKeys({
    "?": () => setHelp(!isHelp), t: change,
    a: () => access.state === "open" && !access.session.reads_only && (location.hash = "#/ask"),
  });
  const open = () => findAccess().then(setAccess);
  useEffect(() => {
    whenRefused(() => findAccess().then((found) => setAccess({ ...found, hasEnded: true })));
    open();
  }, []);
  const leave = () => logout().then(open, open);
  return html`
    <header>
      <a class="brand" href="#/">Podium</a>
      ${access.state === "open" && html`<nav class="pages" aria-label="Pages">${pages(access.session).map(([page, href, words]) =>
        html`<a href=${href} aria-current=${place.page === page ? "page" : undefined}>${words}</a>`)}</nav>`}
      <nav aria-label="Session">
        ${access.session?.key && html`<${Budgets} /><span class="dim">${access.session.key} (${access.session.role})</span>
          <button class="quiet" onClick=${leave}>Log out</button>`}
        <button class="quiet" onClick=${change} title="Change the colours (t)">Colours: ${shade}</button>
        <button class="quiet" onClick=${() => setHelp(true)} title="Show the keys (?)">Keys</button>
      </nav>
    </header>
    <main>${access.state === "open" ? page(place, access.session) : html`<${Gate} access=${access} retry=${open} />`}</main>
    ${isHelp && html`<${Help} close=${() => setHelp(false)} />`}
  `;
}

function page(place, session) {
  if (place.page === "run") return html`<${RunPage} key=${place.id} id=${place.id} place=${place.step} readsOnly=${session.reads_only} />`;
  if (place.page === "compare") return html`<${Compare} key=${place.ids.join()} ids=${place.ids} />`;
  if (place.page === "ask" && !session.reads_only) return html`<${Ask} query=${place.query} readsOnly=${session.reads_only} />`;
  if (place.page === "sums") return html`<${SumsPage} query=${place.query} canAsk=${!session.reads_only} />`;
  return html`<${Runs} query=${place.query ?? {}} canAsk=${!session.reads_only} />`;
}

// The page of one run, and the comparison, belong to the list.
function pages(session) {
  return [["runs", lastList(), "Runs"], ...(session.reads_only ? [] : [["ask", "#/ask", "Ask"]]), ["sums", "#/sums", "Charts"]];
}

// Returns whether the person may see runs: with a session, or at a server without keys.
async function findAccess() {
  try {
    const session = await findSession();
    return { state: session.state === "login" ? "login" : "open", session, error: null };
  } catch (error) {
    return { state: "error", session: null, error };
  }
}

function Gate({ access, retry }) {
  const [error, setError] = useState(null);
  if (access.state === "loading") return html`<p class="note" role="status">Loading…</p>`;
  if (access.state === "error") {
    return html`<div class="note" role="alert"><h1>The runs cannot be shown</h1><p>${access.error.message}</p>
      <button onClick=${retry}>Try again</button></div>`;
  }
  const enter = (event) => {
    event.preventDefault();
    login(new FormData(event.target).get("key")).then(retry, setError);
  };
  return html`<form class="note login" onSubmit=${enter}>
    <h1>Log in</h1>
    ${access.hasEnded && html`<p class="wait banner" role="status">The session has ended.</p>`}
    <p>Enter an API key of this server. The browser keeps a session, and not the key.</p>
    <label>API key <input name="key" type="password" autocomplete="off" required autofocus /></label>
    ${error && html`<p class="bad" role="alert">${error.message}</p>`}
    <button class="main">Log in</button>
  </form>`;
}

function Help({ close }) {
  useKeys({ Escape: close });
  return html`<div class="veil" onClick=${close}>
    <section class="sheet" role="dialog" aria-modal="true" aria-label="Keys" onClick=${(e) => e.stopPropagation()}>
      <h2>Keys</h2>
      <dl>${HELP.map(([key, told]) => html`<dt><kbd>${key}</kbd></dt><dd>${told}</dd>`)}</dl>
      <button onClick=${close} autofocus>Close</button>
    </section>
  </div>`;
}

// The colours: those of the system, or those that the person chose.

export const theme = () => (ORDER.includes(localStorage.getItem(NAME)) ? localStorage.getItem(NAME) : "system");

export function applyTheme() {
  document.documentElement.dataset.theme = theme();
}

export function nextTheme() {
  localStorage.setItem(NAME, ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length]);
  applyTheme();
  return theme();
}

// The budgets of the key of the session: what is spent and reserved of them.

export function Budgets() {
  const [found, setFound] = useState({ budgets: [], isKnown: true });
  useEffect(() => {
    const look = async () => {
      if (document.hidden) return;
      try {
        const { budgets } = await get("/v1/keys/self");
        if (timer.isOn) setFound({ budgets, isKnown: true });
        if (!budgets.length) clearInterval(timer.id);
      } catch {
        if (timer.isOn) setFound((before) => ({ ...before, isKnown: false }));
      }
    };
    const timer = { isOn: true, id: setInterval(look, REFRESH) };
    look();
    const forget = onChange(() => setTimeout(look, SETTLED));
    return () => {
      timer.isOn = false;
      forget();
      clearInterval(timer.id);
    };
  }, []);
  return found.budgets.map((each) => html`<${Budget} budget=${each} isKnown=${found.isKnown} />`);
}

function Budget({ budget, isKnown }) {
  const { period, most, spent, reserved } = budget;
  const told = `budget of this ${period}: ${usd(spent)} spent and ${usd(reserved)} reserved of ${usd(most)}`;
  const ends = `The next ${period} begins at ${exactly(budget.ends)}.`;
  const wide = (amount) => (WIDTH * Math.min(amount, most)) / most;
  return html`<span class=${`budget${spent + reserved >= 0.8 * most ? " high" : ""}`} title=${`${told}. ${ends}`}>
    <span class="dim">${period}</span> <b>${isKnown ? usd(spent) : "unknown"}</b> <span class="dim">of ${usd(most)}${isKnown && reserved > 0 && `, ${usd(reserved)} reserved`}</span>
    <svg width=${WIDTH} height="6" role="meter" aria-label=${told} aria-valuemin="0" aria-valuemax=${most} aria-valuenow=${Math.min(spent + reserved, most)}>
      <rect class="all" width=${WIDTH} height="6" rx="3" />
      <rect class="reserved" width=${wide(spent + reserved)} height="6" rx="3" />
      <rect class="spent" width=${wide(spent)} height="6" rx="3" />
    </svg>
  </span>`;
}

applyTheme();
takeToken();
render(html`<${App} />`, document.getElementById("app"));
