// The keyboard. A page names its keys; they do nothing while a person writes.

import { useEffect, useRef } from "./vendor/htm-preact.js";

export const HELP = [
  ["j, k", "next or previous run or step"],
  ["Enter", "open the run"],
  ["c", "mark the run for a comparison"],
  ["C", "compare the two marked runs"],
  ["/", "search"],
  ["a", "ask"],
  ["Ctrl+Enter", "send the question"],
  ["f", "fit the plan into the window"],
  ["+, −", "zoom"],
  ["t", "colours: system, light, dark"],
  ["Esc", "close the step, or go back to the list"],
  ["?", "show these keys"],
];

export function useKeys(keys) {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const isWriting = event.target.matches?.("input, textarea, select");
      if (isWriting && event.key === "Escape") return event.target.blur();
      const isControl = event.target.matches?.("a, button, summary");
      if (isWriting || (isControl && event.key === "Enter")) return;
      const act = current.current[event.key];
      if (act) {
        event.preventDefault();
        act();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
