"""A remote agent as a worker."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Unpack
from urllib.parse import urlsplit
from uuid import uuid4

import anyio

from podium.a2a.reader import TaskReader
from podium.aio import PerLoop, run_sync
from podium.errors import ConfigError, WorkerBroken, WorkerError, WorkerRefused, WorkerTimeout, install_hint
from podium.hosts import CardMaker, CardOptions, prompt_text, worker_errors
from podium.secrets import register
from podium.types import Completion
from podium.workers import Card, Request, Worker

_CONNECT, _WRITE = 10.0, 30.0
"""Timeouts to connect and to send a request, in seconds. The caller limits the wait for the answer."""
_BINDINGS = ("JSONRPC", "HTTP+JSON")


def check_installed() -> None:
    """Check that the SDK is installed.

    Raises:
        ConfigError: the SDK is not installed.
    """
    if find_spec("a2a") is None:
        raise ConfigError(f"A2A needs a2a-sdk: {install_hint('core[a2a]')}")


def http_client(headers: Mapping[str, str]) -> Any:
    """Return an httpx client for the SDK that sends the headers with each request."""
    timeout = (_CONNECT, None, _WRITE, _WRITE)
    return import_module("httpx").AsyncClient(headers=dict(headers), timeout=timeout)


async def fetch_card(http: Any, url: str) -> Any:
    """Return the card of the agent at a URL."""
    return await import_module("a2a.client").A2ACardResolver(http, url).get_agent_card()


class AgentClient:
    """Calls an agent. Requests and events are JSON data in the form of A2A.

    Args:
        http: the httpx client.
        card: the agent's card.
    """

    def __init__(self, http: Any, card: Any) -> None:
        client = import_module("a2a.client")
        config = client.ClientConfig(httpx_client=http, supported_protocol_bindings=list(_BINDINGS))
        self._client = client.ClientFactory(config).create(card)
        self._types = import_module("a2a.types")
        self._json = import_module("google.protobuf.json_format")

    async def send(self, text: str, message_id: str) -> AsyncGenerator[dict[str, Any], None]:
        """Send a message, and yield each `StreamResponse`."""
        message = {"role": "ROLE_USER", "messageId": message_id, "parts": [{"text": text}]}
        request = self._json.ParseDict({"message": message}, self._types.SendMessageRequest())
        async for event in self._client.send_message(request):
            yield self._json.MessageToDict(event)

    async def task(self, task_id: str) -> dict[str, Any]:
        """Return the current state of a task as a `StreamResponse`."""
        return {"task": self._plain(await self._client.get_task(self._types.GetTaskRequest(id=task_id)))}

    async def cancel(self, task_id: str) -> None:
        """Ask the agent to cancel a task."""
        await self._client.cancel_task(self._types.CancelTaskRequest(id=task_id))

    def _plain(self, message: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._json.MessageToDict(message)
        return found


_LOG = logging.getLogger("podium.a2a")
_CANCEL_SECONDS = 2.0
"""Timeout of a cancel request, in seconds."""
_POLL_SECONDS = 1.0
"""Poll interval for a task whose stream ended before the task, in seconds."""
_REFUSED = frozenset(
    {
        "ContentTypeNotSupportedError",
        "ExtensionSupportRequiredError",
        "InvalidParamsError",
        "InvalidRequestError",
        "MethodNotFoundError",
        "UnsupportedOperationError",
        "VersionNotSupportedError",
    }
)
"""Names of the SDK's errors for a refused request."""
_BROKEN = frozenset({"InvalidAgentResponseError", "JSONParseError"})


class AgentConnection(PerLoop[Any]):
    """The HTTP clients for one agent: one client for each event loop.

    Args:
        headers: sent with every request.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._headers = headers

    async def _open(self) -> Any:
        return http_client(self._headers)

    async def _close(self, part: Any) -> None:
        await part.aclose()


class AgentWorker(Worker):
    """Sends each step to an agent as a task. `RemoteAgent.worker` creates it.

    If the agent streams, the text of its artifacts is streamed. If a call is cancelled or times out, the
    worker asks the agent to cancel its task.

    Args:
        connection: the HTTP client.
        agent: the agent's card, an object of the SDK.
        card: the worker's card, for the planner.
        seconds: timeout for the answer.
    """

    def __init__(self, connection: AgentConnection, agent: Any, *, card: Card, seconds: float) -> None:
        self.card = card
        self._connection = connection
        self._agent = agent
        self._seconds = seconds

    def __repr__(self) -> str:
        return f"AgentWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Send the messages as one text, and wait until the task ends.

        Raises:
            WorkerError: the agent is unreachable, or its task did not end with an answer.
        """
        text = prompt_text(request.messages)
        with worker_errors(self.card.name, reader=_known_error):
            async with self._connection.opened() as http:
                client, task = AgentClient(http, self._agent), TaskReader(self.card.name)
                try:
                    async with aclosing(self._events(client, text, task)) as events:
                        async for event in events:
                            if not request.stream:
                                task.note(event)
                            elif piece := task.feed(event):
                                yield piece
                    done = task.completion()
                finally:
                    if task.is_open:
                        await self._cancel(client, task.task_id)
        if request.stream and (rest := task.rest_of(done.text)):
            yield rest
        yield done

    async def _events(
        self, client: AgentClient, text: str, task: TaskReader
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield events until the task stops.

        Raises:
            WorkerTimeout: the task did not stop before the timeout.
        """
        until = anyio.current_time() + self._seconds
        try:
            async with aclosing(client.send(text, uuid4().hex)) as sent:
                while (event := await _next(sent, until)) is not None:
                    yield event
                    if task.has_stopped:
                        return
            while task.is_open:  # the stream ended before the task
                with anyio.fail_after(until - anyio.current_time()):
                    await anyio.sleep(_POLL_SECONDS)
                    event = await client.task(task.task_id)
                yield event
        except TimeoutError as error:
            told = f"agent {self.card.name!r} did not answer within {self._seconds:g} s"
            raise WorkerTimeout(told, maybe_paid=True) from error

    async def _cancel(self, client: AgentClient, task_id: str) -> None:
        """Ask the agent to cancel a task; a failure is logged."""
        with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
            try:
                await client.cancel(task_id)
            except Exception as error:  # noqa: BLE001 - the call already ends with another error
                _LOG.warning("agent %r did not cancel task %s: %s", self.card.name, task_id, error)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._connection,)


async def _next(events: AsyncIterator[dict[str, Any]], until: float) -> dict[str, Any] | None:
    """Return the next event; `None` at the end."""
    with anyio.fail_after(until - anyio.current_time()):
        return await anext(events, None)


def _known_error(error: BaseException) -> WorkerError | None:
    """Return the error for an exception of the SDK; `None` for any other exception."""
    name = type(error).__name__
    if name in _REFUSED:
        return WorkerRefused(f"the agent refused the request ({name}): {error}"[:400])
    if name in _BROKEN:
        return WorkerBroken(f"the agent sent an invalid answer ({name}): {error}"[:400], maybe_paid=True)
    return None


ACTS_EXTENSION = "urn:podium:acts"
"""The extension of a card that says whether the agent acts (`Worker.acts`), in its parameter `acts`."""
_CARD_SECONDS = 30.0
"""Timeout for an agent's card, in seconds."""


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
        check_installed()
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

    async def worker(self, *, acts: bool | None = None, **options: Unpack[CardOptions]) -> AgentWorker:
        """Request the agent's card, and return a worker with the name and skills on it.

        Args:
            acts: whether a task of the agent is an action; see `Worker.acts`. `None` means what the card
                says, as the cards of Podium's agents do; other agents count as agents that act.
            options: see `CardOptions`.

        Raises:
            ConfigError: the options contradict each other.
            WorkerError: the agent's card cannot be read, or names another host.
        """
        connection = AgentConnection(self._headers)
        async with connection.opened() as http:
            with worker_errors(self.url):
                try:
                    with anyio.fail_after(_CARD_SECONDS):
                        card = await fetch_card(http, self.url)
                except TimeoutError as error:
                    told = f"the agent at {self.url} sent no card within {_CARD_SECONDS:g} s"
                    raise WorkerTimeout(told) from error
                self._check_hosts(card)
        worker = AgentWorker(connection, card, card=_card_of(card, options), seconds=self._seconds)
        worker.acts = _acts(card) if acts is None else acts
        return worker

    def worker_sync(self, *, acts: bool | None = None, **options: Unpack[CardOptions]) -> AgentWorker:
        """Call `worker` from synchronous code."""
        return run_sync(lambda: self.worker(acts=acts, **options))

    def _check_hosts(self, card: Any) -> None:
        """Raise an error if the card would send the headers to another host.

        Raises:
            WorkerRefused: the card names another host.
        """
        if not self._headers:
            return
        for interface in card.supported_interfaces:
            if _origin(interface.url) != _origin(self.url):
                told = f"the card of the agent at {self.url} names another host: {interface.url}"
                raise WorkerRefused(f"{told}; its headers are not sent there. If you trust it, use its URL")


def _acts(card: Any) -> bool:
    told = [each for each in card.capabilities.extensions if each.uri == ACTS_EXTENSION]
    return not told or told[0].params["acts"] is not False


def _card_of(card: Any, options: CardOptions) -> Card:
    skills = [f"{skill.name}: {skill.description}" for skill in card.skills]
    told = f"{card.description} {'Skills: ' if skills else ''}{'; '.join(skills)}"
    return CardMaker(options).card(name=card.name, description=told)


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
