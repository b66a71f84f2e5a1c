// The state of a run while its events arrive. Many events change the page once.

import { ApiError, get, request, runPath, serverNow, tellChange } from "./api.js";
import { fold, learn, leave, newRun, tick } from "./fold.js";
import { useCallback, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const MOST_AT_ONCE = 2000;
const BETWEEN = 40;  // milliseconds between two drawings, so that input has time
const BETWEEN_HIDDEN = 200;
const SECOND = 1000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
const LOOK = 3000;

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

// Reads the events of a run, and connects again with Last-Event-ID: after a lost connection at once, and
// after the end of the stream now and then, because a person or a program may continue or delete the run.

// Calls onEvent with each event, onState with "live", "lost" or "over", and onError with an error of the server.
export function follow(id, { onEvent, onState, onError }) {
  const stop = new AbortController();
  run().catch((error) => {
    if (!stop.signal.aborted) onError(error);
  });
  return () => stop.abort();

  async function run() {
    let last = null;
    let wait = FIRST_WAIT;
    while (!stop.signal.aborted) {
      try {
        const headers = last === null ? {} : { "last-event-id": last };
        const response = await request("GET", runPath(id, "/events?pieces=true"), { headers, signal: stop.signal });
        onState("live");
        wait = FIRST_WAIT;
        for await (const event of frames(response.body)) {
          if (event.id !== undefined) last = event.id;
          if (event.type === "error") throw new ApiError(0, event.data.error?.code, event.data.error?.message);
          onEvent(event.data);
        }
        onState("over");  // no process executes the run
        await aLook(stop.signal);
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof ApiError && error.status >= 400 && error.status < 500) throw error;
        onState("lost");
        await new Promise((resolve) => setTimeout(resolve, wait));
        wait = Math.min(2 * wait, LONGEST_WAIT);
      }
    }
  }
}

// Resolves after some time, and at once when the person comes back to the page; a hidden page does not look.
function aLook(stopped) {
  return new Promise((resolve) => {
    const done = new AbortController();
    const end = () => {
      clearInterval(timer);
      done.abort();
      resolve();
    };
    const look = () => document.hidden || end();
    const timer = setInterval(look, LOOK);
    addEventListener("focus", look, { signal: done.signal });
    document.addEventListener("visibilitychange", look, { signal: done.signal });
    stopped.addEventListener("abort", end, { signal: done.signal });
  });
}

async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const event = frame(part);
      if (event !== null) yield event;
    }
  }
}

function frame(text) {
  const event = {};
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) event.type = line.slice(7);
    else if (line.startsWith("id: ")) event.id = line.slice(4);
    else if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
  }
  return event.data === undefined ? null : event;
}
