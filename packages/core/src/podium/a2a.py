"""A2A: remote agents as workers.

The SDK is imported when an agent is called, because the import takes a second.
"""

import json
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Unpack
from urllib.parse import urlsplit

import anyio

from podium.aio import run_sync
from podium.aio.loops import PerLoop
from podium.errors import (
    AgentFailed,
    AgentRejected,
    ConfigError,
    WorkerBroken,
    WorkerError,
    WorkerRefused,
    WorkerTimeout,
    install_hint,
)
from podium.hosts import CardMaker, CardOptions, worker_errors
from podium.hosts.chat import encoded_size, text_completion
from podium.secrets import register
from podium.types import Completion
from podium.types.messages import prompt_text, storable
from podium.types.outcome import inner_problem
from podium.workers import Card, Request, Worker
from podium.workers.openai.errors import quoted

ACTS_EXTENSION = "urn:podium:acts"
"""The extension of a card that says whether the agent acts (`Worker.acts`), in its parameter `acts`."""
_LOG = logging.getLogger("podium.a2a")
_TIMEOUTS: Final = (10.0, None, 30.0, 30.0)
"""To connect, read, write and get a connection, in seconds. The caller limits the wait for the answer."""
_CARD_SECONDS, _CANCEL_SECONDS, _POLL_SECONDS = 30.0, 2.0, 1.0
_COMPLETED: Final = "TASK_STATE_COMPLETED"
_ENDS: Final[Mapping[str, tuple[type[WorkerError], str]]] = {
    "TASK_STATE_FAILED": (AgentFailed, "failed"),
    "TASK_STATE_CANCELED": (AgentFailed, "cancelled the task itself"),
    "TASK_STATE_REJECTED": (AgentRejected, "rejected the task"),
    "TASK_STATE_INPUT_REQUIRED": (AgentRejected, "asks for input, which a step cannot give"),
    "TASK_STATE_AUTH_REQUIRED": (AgentRejected, "asks for authorization, which a step cannot give"),
}
"""States without an answer, each with its error and the end of the message."""
_WAITING: Final = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"})
_REFUSED = (
    "ContentTypeNotSupportedError", "ExtensionSupportRequiredError", "InvalidParamsError",
    "InvalidRequestError", "MethodNotFoundError", "UnsupportedOperationError", "VersionNotSupportedError",
)  # fmt: skip
_BROKEN = ("InvalidAgentResponseError", "JSONParseError")


class RemoteAgent:
    """An agent that speaks A2A.

    Args:
        url: the base URL of the agent, whose card is at `/.well-known/agent-card.json`.
        headers: HTTP headers of every request, such as `Authorization`. Their values are secrets. With
            headers, the card must not name another host than `url`.
        seconds: timeout for the answer to one message.

    Raises:
        ConfigError: the URL is not an HTTP URL, `seconds` is not above 0, or the SDK is not installed.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, seconds: float = 300.0) -> None:
        if find_spec("a2a") is None:
            raise ConfigError(f"A2A needs a2a-sdk: {install_hint('podium-conductor[a2a]')}")
        if _origin(url) is None:
            raise ConfigError("the URL of a remote agent is not an http(s) URL with a host")
        if not seconds > 0:
            raise ConfigError(f"seconds of a remote agent is {seconds!r}: it must be above 0")
        for value in (headers or {}).values():
            register(value)
            register(value.rpartition(" ")[2])
        self.url = url
        self._headers = dict(headers or {})
        self._seconds = seconds

    def __repr__(self) -> str:
        return f"RemoteAgent({self.url!r})"

    async def worker(self, *, acts: bool | None = None, **options: Unpack[CardOptions]) -> "AgentWorker":
        """Request the agent's card, and return a worker with the name and skills on it.

        Args:
            acts: whether a task of the agent is an action; see `Worker.acts`. `None` means what the card
                says, as the cards of Podium's agents do; other agents count as agents that act.
            options: see `CardOptions`.

        Raises:
            ConfigError: the options contradict each other.
            WorkerError: the URL has no agent card, or the card names another host.
        """
        http = _Http(self._headers)
        no_card = WorkerRefused(
            f"{self.url} has no agent card at /.well-known/agent-card.json: check the URL"
        )
        with worker_errors(self.url, reader=lambda error: no_card if _is_no_card(error) else None):
            try:
                with anyio.fail_after(_CARD_SECONDS):
                    async with http.opened() as opened:
                        resolver = import_module("a2a.client").A2ACardResolver(opened, self.url)
                        agent = await resolver.get_agent_card()
            except TimeoutError as error:
                told = f"the agent at {self.url} sent no card within {_CARD_SECONDS:g} s"
                raise WorkerTimeout(told) from error
        if not agent.name or not agent.supported_interfaces:  # the SDK reads a card from any JSON object
            raise no_card
        for interface in agent.supported_interfaces if self._headers else ():
            if _origin(interface.url) != _origin(self.url):
                told = f"the card of the agent at {self.url} names another host: {interface.url}"
                raise WorkerRefused(f"{told}; its headers are not sent there. If you trust it, use its URL")
        skills = [f"{skill.name}: {skill.description}" for skill in agent.skills]
        told = f"{agent.description} {'Skills: ' if skills else ''}{'; '.join(skills)}"
        card = CardMaker(options).card(name=agent.name, description=told)
        worker = AgentWorker(http, agent, card=card, seconds=self._seconds)
        said = [each.params["acts"] for each in agent.capabilities.extensions if each.uri == ACTS_EXTENSION]
        worker.acts = not (said and said[0] is False) if acts is None else acts
        return worker

    def worker_sync(self, *, acts: bool | None = None, **options: Unpack[CardOptions]) -> "AgentWorker":
        """Call `worker` from synchronous code."""
        return run_sync(lambda: self.worker(acts=acts, **options))


def _origin(url: str) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port of an HTTP URL; `None` for any other text."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)


class _Http(PerLoop[Any]):
    """The HTTP client of each event loop, of the package that the SDK uses."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._headers = headers

    async def _open(self) -> Any:
        return import_module("httpx").AsyncClient(headers=self._headers, timeout=_TIMEOUTS)

    async def _close(self, part: Any) -> None:
        await part.aclose()


class AgentWorker(Worker):
    """Sends each step to an agent as a task. `RemoteAgent.worker` creates it.

    If the agent streams, the text of its artifacts is streamed. If a call is cancelled or times out, the
    worker asks the agent to cancel its task.
    """

    def __init__(self, http: PerLoop[Any], agent: Any, *, card: Card, seconds: float) -> None:
        self.card = card
        self._http = http
        self._agent = agent
        self._seconds = seconds

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Send the messages as one text, and wait until the task ends.

        Raises:
            WorkerError: the agent is unreachable, or its task did not end with an answer.
        """
        name, text, sent = self.card.name, prompt_text(request.messages), ""
        task = _Task(name)
        with worker_errors(name, reader=_known_error):
            async with self._http.opened() as http:
                sdk = import_module("a2a.client")
                bindings = ["JSONRPC", "HTTP+JSON"]
                config = sdk.ClientConfig(httpx_client=http, supported_protocol_bindings=bindings)
                client = sdk.ClientFactory(config).create(self._agent)
                try:
                    async with aclosing(self._events(client, text, task)) as events:
                        async for event in events:
                            task.take(event)
                            if request.stream and (whole := task.text) != sent:
                                if not whole.startswith(sent):
                                    told = f"agent {name!r} replaced an artifact that was already streamed"
                                    raise WorkerBroken(told, maybe_paid=True)
                                piece, sent = whole[len(sent) :], whole
                                yield piece
                    done = task.completion()
                finally:
                    if task.is_open:
                        await self._cancel(client, task.task_id)
        if request.stream and (rest := done.text.removeprefix(sent)):
            yield rest
        yield done

    async def _events(self, client: Any, text: str, task: "_Task") -> AsyncGenerator[dict[str, Any], None]:
        """Yield each `StreamResponse` as JSON data until the task stops."""
        types = import_module("a2a.types")
        as_json = import_module("google.protobuf.json_format").MessageToDict
        message = import_module("a2a.helpers").new_text_message(text, role=types.Role.ROLE_USER)
        until = anyio.current_time() + self._seconds
        try:
            async with aclosing(client.send_message(types.SendMessageRequest(message=message))) as sent:
                while not task.has_stopped:
                    with anyio.fail_after(until - anyio.current_time()):
                        if (event := await anext(sent, None)) is None:
                            break
                    yield as_json(event)
            while task.is_open and not task.has_stopped:  # the stream ended before the task
                with anyio.fail_after(until - anyio.current_time()):
                    await anyio.sleep(_POLL_SECONDS)
                    found = await client.get_task(types.GetTaskRequest(id=task.task_id))
                yield {"task": as_json(found)}
        except TimeoutError as error:
            told = f"agent {self.card.name!r} did not answer within {self._seconds:g} s"
            raise WorkerTimeout(told, maybe_paid=True) from error

    async def _cancel(self, client: Any, task_id: str) -> None:
        """Ask the agent to cancel a task; a failure is logged."""
        with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
            try:
                await client.cancel_task(import_module("a2a.types").CancelTaskRequest(id=task_id))
            except Exception as error:  # noqa: BLE001 - the call already ends with another error
                _LOG.warning("agent %r did not cancel task %s: %s", self.card.name, task_id, error)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._http,)


def _is_no_card(error: BaseException) -> bool:
    """Return whether the SDK got another text in place of a card."""
    cause = type(error.__cause__).__name__
    return type(error).__name__ == "AgentCardResolutionError" and cause in ("JSONDecodeError", "ParseError")


def _known_error(error: BaseException) -> WorkerError | None:
    """Return the error for an exception of the SDK; `None` for any other exception."""
    name = type(error).__name__
    if name in _REFUSED:
        return WorkerRefused(f"the agent refused the request ({name}): {error}"[:400])
    if name in _BROKEN:
        return WorkerBroken(f"the agent sent an invalid answer ({name}): {error}"[:400], maybe_paid=True)
    return None


class _Artifact:
    """The text of an artifact or a message, whose parts may arrive one by one."""

    def __init__(self) -> None:
        self.text = ""
        self.gaps: list[str] = []
        self._ends_in_line = False

    def add(self, parts: Iterable[Mapping[str, Any]] | None) -> None:
        for part in parts or ():
            name = part.get("filename") or "a file"
            match part:
                case {"text": str(text)}:
                    self._write(text, is_line=False)
                case {"data": data}:
                    self._write(json.dumps(data, ensure_ascii=False), is_line=True)
                case {"url": str(url)}:
                    self._write(f"{name}: {url}", is_line=True)
                case {"raw": str(raw)}:
                    kind = part.get("mediaType") or "of unknown type"
                    self.gaps.append(f"{name} ({kind}, {encoded_size(raw)})")
                case _:
                    self.gaps.append("a part of an unknown kind")

    def _write(self, text: str, *, is_line: bool) -> None:
        # Texts that follow each other are joined, because agents send a text word by word.
        parted = "\n" if self.text and (is_line or self._ends_in_line) else ""
        self.text += storable(parted + text)
        self._ends_in_line = is_line


class _Task:
    """The known state of one task."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._state = ""
        self._said = ""
        self._artifacts: dict[str, _Artifact] = {}
        self._facts: object = None
        """What another Podium tells about its run."""
        self.task_id = ""
        """The task's id; empty if the agent has not created a task."""

    @property
    def has_stopped(self) -> bool:
        """Whether the agent has stopped working on the task."""
        return self._state == _COMPLETED or self._state in _ENDS

    @property
    def is_open(self) -> bool:
        """Whether there is a task that has not ended."""
        return bool(self.task_id) and (not self.has_stopped or self._state in _WAITING)

    @property
    def text(self) -> str:
        """The text of the artifacts until now."""
        return "\n\n".join(each.text for each in self._artifacts.values() if each.text.strip())

    def take(self, event: Mapping[str, Any]) -> None:
        """Take a `StreamResponse`."""
        match event:
            case {"message": message}:
                self._state = _COMPLETED
                self._put("message", message)
            case {"task": task}:
                self._take_status(task.get("id"), task)
                for artifact in task.get("artifacts") or []:
                    self._put(str(artifact.get("artifactId")), artifact)
            case {"statusUpdate": update}:
                self._take_status(update.get("taskId"), update)
            case {"artifactUpdate": update}:
                self.task_id = str(update.get("taskId") or self.task_id)
                sent = update.get("artifact") or {}
                self._put(str(sent.get("artifactId")), sent, append=bool(update.get("append")))

    def _take_status(self, task_id: object, update: Mapping[str, Any]) -> None:
        self.task_id = str(task_id or self.task_id)
        status, self._facts = update.get("status") or {}, (update.get("metadata") or {}).get("podium")
        self._state = str(status.get("state") or self._state)
        message = _Artifact()
        message.add((status.get("message") or {}).get("parts"))
        self._said = message.text

    def _put(self, key: str, sent: Mapping[str, Any], *, append: bool = False) -> None:
        if not append or key not in self._artifacts:
            self._artifacts[key] = _Artifact()
        self._artifacts[key].add(sent.get("parts"))

    def completion(self) -> Completion:
        """Return the answer, or raise the error of the task's state."""
        agent = f"agent {self._worker!r}"
        if self._state in _ENDS:
            kind, told = _ENDS[self._state]
            said = f": {quoted(self._said)}" if self._said else ""
            raise kind(f"{agent} {told}{said}", maybe_paid=True)
        if self._state != _COMPLETED:
            raise WorkerBroken(f"{agent} ended without an answer", maybe_paid=True)
        gaps = [gap for artifact in self._artifacts.values() for gap in artifact.gaps]
        if (found := text_completion([self.text or self._said], gaps, self._worker)) is None:
            raise WorkerBroken(f"{agent} completed the task without an answer", maybe_paid=True)
        problem = inner_problem(self._facts)
        return found if problem is None else replace(found, missing=problem.message)
