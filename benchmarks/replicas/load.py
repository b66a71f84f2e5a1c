"""The client: starts runs, and waits for their ends."""

import json
from collections.abc import Sequence
from itertools import cycle
from time import perf_counter
from typing import Any

import aiohttp
import anyio
import psycopg

from benchmarks.replicas.fleet import Fleet
from podium.errors import PodiumError

AT_ONCE = 64
"""Requests of the client at the same time."""
QUESTION = "Should our bakery give up one of its two markets, and what would that change in the first year?"
_LOOK_SECONDS = 0.25
_OPEN = "SELECT EXISTS (SELECT 1 FROM podium_jobs)"
_STATES = "SELECT state, count(*) FROM podium_runs GROUP BY state"


async def in_background(fleet: Fleet, runs: int) -> list[float]:
    """Queue runs, wait until all have ended, and return the seconds of each request."""
    took = await _requests(fleet, "runs", {"model": "podium", "query": QUESTION}, runs)
    async with await psycopg.AsyncConnection.connect(fleet.database, autocommit=True) as connection:
        while (await _rows(connection, _OPEN))[0][0]:  # noqa: ASYNC110 - other processes end them
            await anyio.sleep(_LOOK_SECONDS)
        states = dict(await _rows(connection, _STATES))
    if set(states) != {"ok"}:
        raise PodiumError(f"not all runs ended well: {states}")
    return took


async def start_runs(fleet: Fleet, runs: int, ids: dict[int, str]) -> None:
    """Queue runs, and store the id of each by its number in the order of the requests."""
    await _requests(fleet, "runs", {"model": "podium", "query": QUESTION}, runs, ids)


async def in_foreground(fleet: Fleet, runs: int) -> list[float]:
    """Make chat completions, and return the seconds of each."""
    asked = {"model": "podium", "messages": [{"role": "user", "content": QUESTION}]}
    return await _requests(fleet, "chat/completions", asked, runs)


async def _requests(
    fleet: Fleet, path: str, body: dict[str, Any], number: int, ids: dict[int, str] | None = None
) -> list[float]:
    """Make requests to all replicas in turn, with all keys in turn, and return the seconds of each."""
    urls, keys = cycle(each.url for each in fleet.replicas), cycle(fleet.keys or ("none",))
    left, took, refused = iter(range(number)), list[float](), list[str]()

    async def ask() -> None:
        for each in left:
            headers, began = {"authorization": f"Bearer {next(keys)}"}, perf_counter()
            async with session.post(f"{next(urls)}/{path}", json=body, headers=headers) as response:
                answer = await response.read()
                if response.status not in (200, 202):
                    refused.append(f"{path}: {response.status} {answer.decode()}")
                    tasks.cancel_scope.cancel()
                    return
            if ids is not None:
                ids[each] = json.loads(answer)["id"]
            took.append(perf_counter() - began)

    async with aiohttp.ClientSession() as session, anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(ask)
    if refused:
        raise PodiumError(refused[0])
    return took


async def _rows(connection: psycopg.AsyncConnection[Any], query: str) -> Sequence[Any]:
    return await (await connection.execute(query)).fetchall()
