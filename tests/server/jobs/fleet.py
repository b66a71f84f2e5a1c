"""Replicas of `podium serve` in their own processes, and clients that use any of them."""

import json
import random
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.to_thread
import httpx2
from server.scene import command_of

START_SECONDS = 60.0
_RETRY_SECONDS = 0.1
_UNAVAILABLE = 503
"""The status of a response while the database is down."""


class Replica:
    """One process, which starts at once."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._log = log
        with log.open("w") as messages:
            self._process = subprocess.Popen(**command_of(folder, "serve", "--port", "0"), stderr=messages)

    def url(self) -> str:
        """Return the URL, when the replica serves."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            for line in self._log.read_text().splitlines():
                if found := line.partition(" at ")[2].strip():
                    return found
            time.sleep(0.05)
        raise AssertionError(self._log.read_text())

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self._process.kill()
        self._process.wait(10)


class Fleet:
    """Replicas that share a `podium.toml`, of which some are lost."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._size = size
        self._chance = random.Random(7)  # noqa: S311 - which replica is used or killed
        self._started = 0
        self._replicas: dict[str, Replica] = {}

    def __enter__(self) -> Self:
        started = [self._start() for _ in range(self._size)]
        self._replicas = {replica.url(): replica for replica in started}
        return self

    def __exit__(self, *error: object) -> None:
        for replica in self._replicas.values():
            replica.kill()

    def url(self, besides: str = "") -> str:
        """Return the URL of a replica that lives."""
        return self._chance.choice([url for url in self._replicas if url != besides])

    async def kill(self) -> None:
        """Kill a replica, and start another one."""
        url = self.url()
        self._replicas.pop(url).kill()
        replica = self._start()
        self._replicas[await anyio.to_thread.run_sync(replica.url)] = replica

    def _start(self) -> Replica:
        self._started += 1
        return Replica(self._folder, self._folder / f"replica-{self._started}.log")


class Client:
    """A client with an API key. It uses another replica when one does not answer."""

    def __init__(self, fleet: Fleet, token: str, http: httpx2.AsyncClient) -> None:
        self._fleet = fleet
        self._headers = {"authorization": f"Bearer {token}"}
        self._http = http

    async def start(self, query: str, url: str = "") -> httpx2.Response:
        """Start a run whose idempotency key is its question, and return the response."""
        body = {"model": "podium", "query": query}
        return await self._send("POST", "/runs", url, json=body, headers={"idempotency-key": query})

    async def start_twice(self, query: str) -> list[httpx2.Response]:
        """Start a run with the same request at two replicas at the same time."""
        answers: list[httpx2.Response] = []

        async def start(url: str) -> None:
            answers.append(await self.start(query, url))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start, first := self._fleet.url())
            tasks.start_soon(start, self._fleet.url(besides=first))
        return answers

    async def chat(self, query: str) -> httpx2.Response:
        """Return an answer, or a refusal, of a request whose idempotency key is its question."""
        body = {"model": "podium", "messages": [{"role": "user", "content": query}]}
        headers = {"idempotency-key": f"chat {query}"}
        return await self._send("POST", "/chat/completions", json=body, headers=headers)

    async def get(self, path: str) -> Any:
        """Return what a path has."""
        return (await self._send("GET", path)).raise_for_status().json()

    async def _send(
        self, method: str, path: str, url: str = "", *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx2.Response:
        while True:
            with suppress(httpx2.TransportError):
                at, named = url or self._fleet.url(), self._headers | dict(headers or {})
                answer = await self._http.request(method, f"{at}{path}", headers=named, **more)
                if answer.status_code != _UNAVAILABLE:
                    return answer
            url = ""
            await anyio.sleep(_RETRY_SECONDS)

    async def follow(self, run_id: str) -> list[Mapping[str, Any]]:
        """Return all events of a run, when it has ended.

        A stream that was cut is continued at another replica after its last event.
        """
        events: list[Mapping[str, Any]] = []
        while True:
            with suppress(httpx2.TransportError):
                if await self._read(run_id, events):
                    return events
            await anyio.sleep(_RETRY_SECONDS)

    async def _read(self, run_id: str, events: list[Mapping[str, Any]]) -> bool:
        """Add the next events of a run; return whether the stream has ended in order."""
        headers = self._headers | ({"last-event-id": str(len(events) - 1)} if events else {})
        url = f"{self._fleet.url()}/runs/{run_id}/events"
        async with self._http.stream("GET", url, headers=headers) as stream:
            if stream.status_code == _UNAVAILABLE:
                return False
            assert stream.status_code == 200, await stream.aread()
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    assert event.get("number") == len(events), event
                    events.append(event)
        return True
