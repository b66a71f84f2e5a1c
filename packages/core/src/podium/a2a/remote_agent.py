"""Reads the card of a remote agent, and makes a worker from it."""

from collections.abc import Mapping
from typing import Any, Unpack
from urllib.parse import urlsplit

import anyio

from podium.a2a.agent_worker import AgentConnection, AgentWorker
from podium.a2a.sdk import check_installed, fetch_card
from podium.aio import run_sync
from podium.errors import ConfigError, WorkerRefused, WorkerTimeout
from podium.hosts import CardMaker, CardOptions, worker_errors
from podium.secrets import register
from podium.workers import Card

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
