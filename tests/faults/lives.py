"""Processes that carry diamonds out: started, killed, stopped; and what the journal then holds."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from faults.child import Task
from faults.diamonds import PARTS, Part

from podium.errors import RunUnknown
from podium.journal import Journal
from podium.journal.journal import verify
from podium.types import StepEnded

_SECONDS = 60.0
"""How long a process may keep the test waiting."""


class Nursery:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    @asynccontextmanager
    async def living(self, task: Task) -> AsyncGenerator["Life", None]:
        """Start a process and wait until it is ready; the block's end is its own."""
        listener = (await anyio.create_tcp_listener(local_host="127.0.0.1")).listeners[0]
        async with listener:
            port = listener.extra_attributes[SocketAttribute.local_port]()
            self._process.stdin.write(replace(task, port=port).to_json() + "\n")
            self._process.stdin.flush()
            with anyio.fail_after(_SECONDS):
                stream = await listener.accept()
        async with stream:
            life = Life(stream)
            ready = await life.hear()
            assert ready is not None
            life.pid = ready["pid"]
            try:
                yield life
            finally:
                with anyio.CancelScope(shield=True):
                    await life.kill()


@contextmanager
def nursing() -> Generator[Nursery, None, None]:
    """Start what starts processes, until the block ends."""
    command = [sys.executable, "-m", "faults.child"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NO_PROXY": "127.0.0.1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environment) as process:
        yield Nursery(process)


class Life:
    """One process, from its start to its end."""

    def __init__(self, stream: SocketStream) -> None:
        self.pid = 0
        self.heard: list[dict[str, Any]] = []
        """What it has said so far."""
        self.is_over = False
        """Whether nothing more will come."""
        self._lines = BufferedByteReceiveStream(stream)

    async def hear(self) -> dict[str, Any] | None:
        """Return what it says next; `None` when it has ended."""
        with anyio.fail_after(_SECONDS):
            try:
                line = await self._lines.receive_until(b"\n", 1 << 20)
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                self.is_over = True
                return None
        self.heard.append(json.loads(line))
        return self.heard[-1]

    async def end(self) -> None:
        while not self.is_over:
            await self.hear()

    async def kill(self) -> None:
        """End it as nothing can that a program may react to."""
        self.signal(signal.SIGKILL)
        await self.end()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not ended."""
        if self.pid and not self.is_over:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    @property
    def was_killed(self) -> bool:
        """Whether it ended before it was over."""
        return self.is_over and {"over": True} not in self.heard

    @property
    def answers(self) -> dict[str, str]:
        return {said["run"]: said["answer"] for said in self.heard if said.get("status") == "ok"}

    @property
    def errors(self) -> dict[str, str]:
        return {said["run"]: said["error"] for said in self.heard if "error" in said}


async def recorded(journal: Journal, runs: Iterable[str]) -> set[Part]:
    """Return the steps that are recorded as ended well, and hold every run to its chain.

    A step that is recorded as paid for twice, or a gap, is a failure of the test.
    """
    found: list[Part] = []
    for run_id in runs:
        try:
            entries = await journal.read(run_id)
        except RunUnknown:
            continue
        assert [entry.number for entry in entries] == list(range(len(entries)))
        assert verify(await journal.records(run_id)) is None
        found += [
            (run_id, list(PARTS)[entry.event.step])
            for entry in entries
            if isinstance(entry.event, StepEnded)
            and entry.event.outcome.status == "ok"
            and not entry.event.outcome.reused
        ]
    assert len(found) == len(set(found)), "a step is recorded as paid for twice"
    return set(found)
