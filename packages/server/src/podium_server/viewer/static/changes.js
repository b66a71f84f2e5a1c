// Tells the parts of the page that show sums of runs that a run has begun or ended.

const NAME = "podium-run-changed";

export const tellChange = () => dispatchEvent(new Event(NAME));

export function onChange(act) {
  addEventListener(NAME, act);
  return () => removeEventListener(NAME, act);
}
