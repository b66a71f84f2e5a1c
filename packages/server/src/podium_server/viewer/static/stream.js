// Reads the events of a run, and connects again with Last-Event-ID after a lost connection.

import { ApiError, request, runPath } from "./api.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
const ENDS = new Set(["run_ended", "run_stopped"]);

// Calls onEvent with each event, onState with "live", "lost" or "ended", and onError with an error of the server.
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
        let type = null;
        for await (const event of frames(response.body)) {
          if (event.id !== undefined) last = event.id;
          if (event.type === "error") throw new ApiError(0, event.data.error?.code, event.data.error?.message);
          if (event.id !== undefined) type = event.type;
          onEvent(event.data);
        }
        // The stream ends when no process executes the run.
        onState(type === null || ENDS.has(type) ? "ended" : "idle");
        return;
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
