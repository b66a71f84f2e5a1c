// The budgets of the key of the session: what is spent and reserved of them.

import { get } from "./api.js";
import { onChange } from "./changes.js";
import { exactly, usd } from "./format.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

const REFRESH = 5000;
const SETTLED = 500;  // the bill of a run comes after its last event
const WIDTH = 40;

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
