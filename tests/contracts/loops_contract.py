"""Checks runs in many event loops and threads: with a host's default clients, no call is lost or repeated.

A host's test calls `check_loops` with each `Face`. Its models are the host's models for OpenAI-compatible
servers, with the host's clients, without retries.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import anyio
from servers.capable import is_planning
from servers.chat_server import Call, ChatServer, Reply, says

RUNS: Final = 48
ANSWER: Final = "All is well."
_PLAN: Final = "\n".join(
    json.dumps({"worker": 0, "subtask": f"Do part {number}.", "access": access})
    for number, access in enumerate(([], [], [0, 1]))
)
_CALLS: Final = {"planner": 1, "worker": 3}
"""Number of calls of one run, by model."""


@dataclass(frozen=True)
class Face:
    """A host's object with a conductor that has one worker and does not retry."""

    ask: Callable[[], Awaitable[str]]
    """Asks a question and returns the answer; called in a running event loop."""
    ask_sync: Callable[[], str]
    """Does the same from synchronous code."""


Mode = Callable[[Face], list[str]]
"""Asks a face `RUNS` times, and returns the answers."""


def repeated(face: Face) -> list[str]:
    """Ask in a new event loop each time."""
    return _repeated(face, RUNS)


def _repeated(face: Face, runs: int) -> list[str]:
    return [asyncio.run(_asking(face)) for _ in range(runs)]


def alternating(face: Face) -> list[str]:
    """Ask in a new event loop and from sync code in turn."""
    return [face.ask_sync() if run % 2 else asyncio.run(_asking(face)) for run in range(RUNS)]


def four_threads(face: Face) -> list[str]:
    """Ask concurrently from four threads, in a new event loop each time."""
    with ThreadPoolExecutor(4) as pool:
        return [said for part in pool.map(lambda _: _repeated(face, RUNS // 4), range(4)) for said in part]


def two_loops(face: Face) -> list[str]:
    """Ask many times concurrently in each of two event loops, which run at the same time."""
    answers = list[str]()

    async def one() -> None:
        answers.append(await face.ask())

    async def half() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(RUNS // 2):
                group.start_soon(one)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: asyncio.run(half()), range(2)))
    return answers


def notebook(face: Face) -> list[str]:
    """Ask from sync code and by `await` in turn, inside one running event loop."""

    async def cells() -> list[str]:
        return [face.ask_sync() if run % 2 else await face.ask() for run in range(RUNS)]

    return asyncio.run(cells())


MODES: Final = {mode.__name__: mode for mode in (repeated, alternating, four_threads, two_loops, notebook)}


def check_loops(make: Callable[[str], Face], mode: Mode) -> None:
    """Ask `RUNS` times, and check each answer and the calls of the server.

    Args:
        make: makes the face for the URL of a server.
        mode: the mode.
    """
    with ChatServer(_reply).in_thread() as server:
        assert mode(make(server.url)) == [ANSWER] * RUNS
        calls = Counter("planner" if is_planning(call) else "worker" for call in server.calls)
        assert calls == {who: number * RUNS for who, number in _CALLS.items()}


def _reply(call: Call) -> Reply:
    return says(call, _PLAN if is_planning(call) else ANSWER, delay=0.002)


async def _asking(face: Face) -> str:
    return await face.ask()
