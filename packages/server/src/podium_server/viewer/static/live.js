// The state of a run while its events arrive. Many events change the page once.

import { get, runPath, serverNow } from "./api.js";
import { tellChange } from "./changes.js";
import { fold, learn, leave, newRun, tick } from "./fold.js";
import { follow } from "./stream.js";
import { useCallback, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const MOST_AT_ONCE = 2000;
const BETWEEN = 40;  // milliseconds between two drawings, so that input has time
const BETWEEN_HIDDEN = 200;
const SECOND = 1000;

// Returns the run, the state of its stream, an error, and a function that connects again.
export function useRun(id) {
  const [shown, setShown] = useState({ run: newRun(id), stream: "loading", error: null });
  const [turn, setTurn] = useState(0);
  const run = useRef(shown.run);
  useEffect(() => {
    const queue = [];
    let timer = null;
    let stream = "loading";
    const isAtWork = () => stream === "live" && run.current.status === "running";
    const draw = () => {
      timer = null;
      const before = run.current.status;
      for (const event of queue.splice(0, MOST_AT_ONCE)) fold(run.current, event);
      if (stream === "over" && !queue.length) {
        leave(run.current);
        if (run.current.status === "stopped" && before !== "stopped") look();
      }
      tick(run.current, isAtWork() ? serverNow() : null);
      if (!["loading", run.current.status].includes(before)) tellChange();
      setShown({ run: run.current, stream, error: null });
      if (queue.length) plan();
    };
    const look = () => get(runPath(id)).then((found) => {
      learn(run.current, found);
      plan();
    }, () => {});  // the run is shown as stopped
    const plan = () => {
      timer ??= setTimeout(draw, document.hidden ? BETWEEN_HIDDEN : BETWEEN);
    };
    const clock = setInterval(() => isAtWork() && plan(), SECOND);
    const stop = follow(id, {
      onEvent: (event) => {
        queue.push(event);
        plan();
      },
      onState: (state) => {
        stream = state;
        plan();
      },
      onError: (error) => setShown({ run: run.current, stream: "over", error }),
    });
    return () => {
      stop();
      clearTimeout(timer);
      clearInterval(clock);
    };
  }, [id, turn]);
  return { ...shown, again: useCallback(() => setTurn((now) => now + 1), []) };
}
