"""The models of all arms: a server of chat completions on loopback, in a process of its own.

On start it prints its URL. A line of input with a JSON object begins a new record of calls with this seed and
number of files; an empty line prints the calls so far. It exits at the end of its input.
"""

import asyncio
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from benchmarks.workflows.job import RETRY_AFTER, key_of, served, text_of
from tests.servers.chat_server import Call, ChatServer, Pause, Reply, completion, whole

MANAGER = "manager"
"""The model that writes the program of an arm."""


State = Literal["answered", "left", "open"]
"""Whether a request was answered, its client closed the connection before, or neither."""


@dataclass(frozen=True, slots=True)
class Record:
    """One request."""

    key: str
    seconds: float = 0.0
    """The delay that was drawn for it."""
    is_refused: bool = False
    read: int = 0
    """Tokens of the prompt, four bytes each."""
    written: int = 0
    state: State = "open"


class Models:
    """Answers the requests, and records them."""

    def __init__(self) -> None:
        self.begin({})

    def begin(self, asked: dict[str, Any]) -> None:
        """Begin a new record."""
        self.seed, self.files, self.program = (
            asked.get("seed", 0),
            asked.get("files", 2),
            asked.get("program", ""),
        )
        self._records: list[tuple[Record, Call]] = []
        self._times, self._is_fast = Counter[str](), asked.get("fast", False)

    async def reply(self, call: Call) -> Reply:
        """Return the reply to a request."""
        if call.body["model"] == MANAGER:
            return self._manage(call)
        key = key_of(" ".join(_text(message["content"]) for message in call.body["messages"]))
        self._times[key] += 1
        drawn = served(key, self._times[key] - 1, self.seed)
        seconds = 0.0 if self._is_fast else drawn.seconds
        if drawn.is_refused:
            self._records.append((Record(key, seconds, is_refused=True), call))
            fault = {"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}
            said = whole(fault, status=429, headers={"retry-after": f"{RETRY_AFTER:g}"})
        else:
            cap = call.body.get("max_tokens") or call.body.get("max_completion_tokens") or 1 << 20
            text = text_of(key, self.files, self.seed)
            cut = text[: 4 * cap]
            read, written = len(call.raw) // 4, len(cut) // 4
            self._records.append((Record(key, seconds, read=read, written=written), call))
            said = whole(_completion(read, written, cut, reason="stop" if cut == text else "length"))
        return Reply((Pause(seconds), *said.parts))

    def _manage(self, call: Call) -> Reply:
        """Write the program, and after its result the answer."""
        is_done = any(message["role"] == "tool" for message in call.body["messages"])
        text = "The report is written." if is_done else self.program
        read, written = len(call.raw) // 4, len(text) // 4
        self._records.append((Record(MANAGER, read=read, written=written), call))
        if is_done:
            return whole(_completion(read, written, text))
        function = {"name": "run_workflow", "arguments": json.dumps({"code": text})}
        tool_call = {"id": "call_1", "type": "function", "function": function}
        return whole(_completion(read, written, None, reason="tool_calls", tool_calls=[tool_call]))

    def records(self) -> list[dict[str, Any]]:
        """Return the requests so far."""
        return [asdict(replace(record, state=_state(call))) for record, call in self._records]


def _state(call: Call) -> State:
    return "answered" if call.answered.is_set() else "left" if call.hung_up.is_set() else "open"


def _completion(
    read: int, written: int, text: str | None, *, reason: str = "stop", tool_calls: Any = ()
) -> dict[str, Any]:
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return completion(text, usage=usage, finish_reason=reason, tool_calls=tool_calls)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content or ())


async def main() -> None:
    """Serve until the end of the input."""
    models = Models()
    async with ChatServer(models.reply) as server:
        print(json.dumps({"url": server.url}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            if asked := line.strip():
                models.begin(json.loads(asked))
                server.calls.clear()
                print("{}", flush=True)
            else:
                print(json.dumps({"records": models.records()}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
