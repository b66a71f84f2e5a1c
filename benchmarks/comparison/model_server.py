"""A loopback server for all models of an arm, which counts the tokens that a provider would bill."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.comparison.job import Job
from benchmarks.comparison.tokens import tokens_of_answer, tokens_of_request

MANAGER = "manager"
"""The model name of planners, supervisors, selectors and managers."""


@dataclass(frozen=True)
class Said:
    """A model's answer: a text, tool calls (name, arguments), or both."""

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any]]] = ()


@dataclass
class Asked:
    """A request to a model."""

    model: str
    body: dict[str, Any]
    turn: int
    """Number of earlier requests to this model."""

    @property
    def text(self) -> str:
        """The text of all messages."""
        return json.dumps(self.body["messages"], ensure_ascii=False)

    @property
    def tools(self) -> list[str]:
        """The names of the offered tools."""
        return [tool["function"]["name"] for tool in self.body.get("tools") or ()]


Script = Callable[[Job, Asked], Said | None]
"""Returns a model's answer; `None` for the output of the agent in the job."""


@dataclass
class Cost:
    """The calls and tokens of an arm."""

    calls: int = 0
    read: int = 0
    written: int = 0
    turns: dict[str, int] = field(default_factory=dict)


class ModelServer:
    """Answers chat completions with the script, each after the latency.

    Args:
        job: the job with the outputs of the models.
        script: returns the answers of orchestrators, and of agents that hand over.
        latency: delay of an answer, in seconds.
    """

    def __init__(self, job: Job, script: Script, latency: float) -> None:
        self.cost = Cost()
        self._job, self._script, self._latency = job, script, latency
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serve during the block; yield the base URL.

        Raises:
            BaseException: the script raised it.
        """
        server = _Server(("127.0.0.1", 0), self._handler())
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
            if self._errors:
                raise self._errors[0]

    def answer(self, body: dict[str, Any]) -> tuple[Said, dict[str, int]]:
        """Return a model's answer and its usage."""
        model = str(body["model"])
        with self._lock:
            turn = self.cost.turns.get(model, 0)
            self.cost.turns[model] = turn + 1
        asked = Asked(model, body, turn)
        said = self._script(self._job, asked) or Said(self._job.output(model, asked.text))
        read, written = tokens_of_request(body), tokens_of_answer(said.text, said.calls)
        with self._lock:
            self.cost.calls += 1
            self.cost.read += read
            self.cost.written += written
        return said, {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                began = time.monotonic()
                try:
                    said, usage = server.answer(body)
                except BaseException as error:
                    server._errors.append(error)
                    raise
                time.sleep(max(0.0, server._latency - (time.monotonic() - began)))
                streamed = bool(body.get("stream"))
                data = (_streamed if streamed else _whole)(said, body["model"], usage)
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # with the default of 5, concurrent connections wait a second


def _message(said: Said) -> tuple[dict[str, Any], str]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if not said.calls:
        return message, "stop"
    message["tool_calls"] = [
        {
            "index": at,
            "id": f"call_{time.monotonic_ns()}_{at}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for at, (name, arguments) in enumerate(said.calls)
    ]
    return message, "tool_calls"


def _whole(said: Said, model: str, usage: dict[str, int]) -> bytes:
    message, reason = _message(said)
    choice = {"index": 0, "message": message, "finish_reason": reason}
    body = {"id": "c1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
    return json.dumps({**body, "usage": usage}).encode()


def _streamed(said: Said, model: str, usage: dict[str, int]) -> bytes:
    message, reason = _message(said)
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": model}
    frames = [
        {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**base, "choices": [], "usage": usage},
    ]
    return "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames).encode() + b"data: [DONE]\n\n"
