"""Runs the arms in processes of their own, against the server of models."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from benchmarks.child_process import Child, start_child
from benchmarks.workflows.job import ENOUGH, SCEPTICS, TURNS, USD_IN, USD_OUT, path_of
from benchmarks.workflows.model_server import Record
from benchmarks.workflows.schedule import least_seconds
from benchmarks.workflows.script import SCRIPT

ARMS = ("podium", "pydantic_ai", "langgraph")
_ROOT = Path(__file__).parents[2]
_PYTHONS = {"pydantic_ai": _ROOT / ".venv-workflows/bin/python"}
_POLL = 0.2
"""Seconds between two looks at the number of answers."""
_WARM = 2
"""Files of the first run of a process, which is not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The size of the job, and what all arms share."""

    files: int
    slots: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of an arm."""

    status: str
    wall: float
    """Seconds."""
    least: float
    """Seconds of the ideal schedule."""
    cpu: float
    """Seconds."""
    records: Sequence[Record]

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens read and written, also those of calls that were cancelled."""
        return sum(each.read for each in self.records), sum(each.written for each in self.records)

    @property
    def cost(self) -> float:
        """USD of all calls, also of those that were cancelled."""
        read, written = self.tokens
        return (read * USD_IN + written * USD_OUT) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """What a kill in the middle of a run has cost."""

    status: str
    in_flight: int
    """Calls in flight at the kill."""
    repeated: int
    """Calls that were answered before the kill, and made again after it."""


def measurable(arm: str) -> bool:
    """Return whether the environment of an arm exists."""
    return arm not in _PYTHONS or _PYTHONS[arm].exists()


def _process(arm: str) -> AbstractAsyncContextManager[Child]:
    return start_child("workflows.arm_process", arm, python=str(_PYTHONS.get(arm, sys.executable)))


class Models:
    """The server of models, from outside."""

    def __init__(self, child: Child, url: str) -> None:
        self._child = child
        self.url = url

    async def begin(self, files: int, seed: int) -> None:
        """Begin a new record of calls."""
        await self._child.ask(json.dumps({"files": files, "seed": seed, "program": SCRIPT}))

    async def records(self) -> list[Record]:
        """Return the calls so far."""
        return [Record(**each) for each in (await self._child.ask(""))["records"]]


async def measure_run(arm: str, job: Job, models: Models) -> Run:
    """Do the job once in a warm process."""
    async with _process(arm) as child:
        await _ask(child, models, job, files=_WARM)
        return await _run(arm, child, models, job)


async def measure_limit(arm: str, job: Job, models: Models, whole: Run) -> Run | None:
    """Do the job in a new process under half of what it has cost; `None` if the arm has no such limit."""
    if arm == "langgraph":
        return None
    limit = (
        {"cost": whole.cost / 2, "fan_out": "fit"} if arm == "podium" else {"tokens": sum(whole.tokens) // 2}
    )
    async with _process(arm) as child:
        return await _run(arm, child, models, job, **limit)


async def measure_kill(arm: str, job: Job, models: Models, whole: Run) -> Kill:
    """Kill the process when half of the answers are sent, and resume its run in another process."""
    half = sum(each.state == "answered" for each in whole.records) // 2
    with TemporaryDirectory() as folder:
        place = str(Path(folder) / "runs.db")
        durable = {"journal": f"sqlite:///{place}" if arm == "podium" else place}
        async with _process(arm) as child:
            await models.begin(job.files, job.seed)
            await child.tell(_line(models, job, job.files, durable))
            while True:
                before = await models.records()
                if sum(each.state == "answered" for each in before) >= half:
                    break
                await anyio.sleep(_POLL)
        at_kill = await models.records()
        async with _process(arm) as child:
            told = await child.ask(_line(models, job, job.files, {**durable, "resume": True}))
        after = (await models.records())[len(at_kill) :]
    answered = Counter(each.key for each in at_kill if each.state == "answered" and not each.is_refused)
    again = Counter(each.key for each in after if not each.is_refused)
    return Kill(
        status=told["status"],
        in_flight=sum(each.state == "open" for each in before),
        repeated=sum((answered & again).values()),
    )


async def measure_memory(job: Job, files: int) -> tuple[float, float]:
    """Return the KiB and the milliseconds of CPU of an item in Podium, with workers in its process."""
    async with _process("podium") as child:
        asked = {"in_process": True, "slots": job.slots}
        await child.ask(json.dumps({**asked, "files": _WARM}))
        told = await child.ask(json.dumps({**asked, "files": files}))
    assert told["status"] == "ok", told
    calls = told["calls"]
    return told["grown_kib"] / calls, told["cpu"] / calls * 1e3


async def _run(arm: str, child: Child, models: Models, job: Job, **more: Any) -> Run:
    told = await _ask(child, models, job, **more)
    records = await models.records()
    paths = [path_of(number) for number in range(job.files)]
    enough = ENOUGH if arm == "podium" else SCEPTICS
    done = sum(
        each.key.startswith("write") and each.state == "answered" and not each.is_refused for each in records
    )
    return Run(
        status=told["status"] if done == TURNS else "incomplete",
        wall=told["wall"],
        least=least_seconds(records, paths, job.slots, enough),
        cpu=told["cpu"],
        records=records,
    )


async def _ask(
    child: Child, models: Models, job: Job, *, files: int | None = None, **more: object
) -> dict[str, Any]:
    size = files or job.files
    await models.begin(size, job.seed)
    return await child.ask(_line(models, job, size, more))


def _line(models: Models, job: Job, files: int, more: dict[str, Any]) -> str:
    return json.dumps({"url": models.url, "files": files, "slots": job.slots, **more})
