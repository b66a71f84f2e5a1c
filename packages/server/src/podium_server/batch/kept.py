"""The budget of a batch, and what earlier attempts have kept and charged."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any

import anyio

from podium.cli.screen import counted
from podium.errors import ConfigError, RunHeld
from podium.journal import RunRow, SqlJournal
from podium.run_state import fold
from podium_server.batch.input import BadLine, Line
from podium_server.batch.output import PENDING, rows
from podium_server.http import BadRequest
from podium_server.keys import BudgetSpent
from podium_server.keys.recorded import excess_of

_ROUNDING = 1e-9


class Budget:
    """Reserves the cost limit of each run before it begins, and waits while running runs reserve too much."""

    def __init__(self, most: float | None) -> None:
        self.most = most
        self.spent = 0.0
        """The cost of all runs of the batch so far, in USD."""
        self.unknown = 0
        """The number of runs of unknown cost."""
        self._reserved = 0.0
        self._earlier: dict[str, float] = {}
        """What runs that are continued had cost before, by their ids."""
        self._changed = anyio.Event()

    @property
    def left(self) -> float | None:
        """What is left, in USD; `None` without a budget."""
        return None if self.most is None else max(self.most - self.spent, 0.0)

    def charge(self, cost: float | None) -> None:
        """Count the cost of a run that has ended; `None` if it is unknown."""
        if cost is None:
            self.unknown += 1
        else:
            self.spent += cost

    def charge_so_far(self, run_id: str, cost: float) -> None:
        """Count what a run has cost that an earlier command began, and that this command may continue."""
        self._earlier[run_id] = cost
        self.spent += cost

    async def reserve(self, run_id: str, limit: float) -> None:
        """Reserve the cost limit of a run, which includes what the run has cost before."""
        before = self._earlier.get(run_id, 0.0)
        if self.most is not None:
            while self.spent - before + self._reserved + limit > self.most + _ROUNDING:
                if not self._reserved:
                    left = f"${self.left:.6g} of the budget is left"
                    told = f"the run may cost ${limit:g}, and {left}: raise --budget, and repeat the command"
                    raise BudgetSpent(told, 0.0)
                await self._changed.wait()
        self._earlier.pop(run_id, None)
        self.spent -= before
        self._reserved += limit

    def settle(self, limit: float, cost: float | None) -> None:
        """Replace the reservation of a run by its cost."""
        self._reserved -= limit
        if self._reserved < _ROUNDING:
            self._reserved = 0.0
        self.charge(limit or None if cost is None else cost)
        self._changed.set()
        self._changed = anyio.Event()


@dataclass(slots=True)
class Kept:
    """The lines of the results of earlier commands that stay."""

    name: str
    """The name of the batch."""
    retries: bool
    """Whether failed lines are run again."""
    runs: dict[str, str] = field(default_factory=dict)
    """The id of the run of each line, by the id of the line."""
    cost: float = 0.0
    unknown: int = 0
    """The number of runs of unknown cost."""
    _statuses: dict[str, str] = field(default_factory=dict)
    """The status of each line, by its id."""

    def read(self, results: Path) -> None:
        """Remember the lines of a file of results, and change nothing."""
        try:
            for row in rows(results):
                self.keeps(row)
        except FileNotFoundError:
            pass  # no command has run yet
        except OSError as error:
            raise ConfigError(f"{results} cannot be read: {error.strerror}") from error

    def keeps(self, row: Mapping[str, Any]) -> bool:
        """Return whether a line of the results stays, and remember it."""
        state = row.get("podium", row)
        status, run_id = state.get("status"), state.get("run_id")
        if status is None or (run_id is not None and run_id.rpartition("-")[0] != self.name):
            told = f"the results have lines of another batch than {self.name!r}"
            raise ConfigError(f"{told}: choose another --out, or the same --name")
        if status in PENDING or (self.retries and status != "ok"):
            return False
        ident = row.get("custom_id", row["id"])
        self.runs[ident], self._statuses[ident] = run_id, intern(status)
        if state["cost"] is None:
            self.unknown += 1
        else:
            self.cost += state["cost"]
        return True

    def status_of(self, line: Line | BadLine) -> str | None:
        """Return the status of a line that is finished; `None` if it is not."""
        if isinstance(line, BadLine) or self.runs.get(line.id) != line.run_id:
            return None
        return self._statuses[line.id]

    def checked(self, line: Line | BadLine) -> Line | BadLine:
        """Return an unfinished line; a bad line, if the results have its id with another question."""
        if isinstance(line, BadLine) or line.id not in self.runs:
            return line
        told = f"the results have the id {line.id!r:.80} with another question: choose another id or --out"
        return BadLine(number=line.number, id=line.id, given=line.given, error=BadRequest(told))


_LOOK_SECONDS = 0.5


async def charge_earlier(
    journal: SqlJournal, kept: Kept, budget: Budget, note: Callable[[str], None]
) -> Collection[str]:
    """Charge the recorded runs whose lines have no result; return those whose results are used."""
    done, found = set(kept.runs.values()), set[str]()
    for row in await _stopped(journal, kept.name, note):
        if row.run_id in done:
            continue
        if _is_done(row, kept):
            found.add(row.run_id)
            budget.charge(await _so_far(journal, row.run_id))
        elif (cost := await _so_far(journal, row.run_id)) is not None:
            budget.charge_so_far(row.run_id, cost)
    return found


async def done_runs(journal: SqlJournal, kept: Kept) -> Collection[str]:
    """Return the recorded runs of the batch that are not run again."""
    return {row.run_id for row in await _recorded(journal, kept.name) if _is_done(row, kept)}


def _is_done(row: RunRow, kept: Kept) -> bool:
    return row.state == "ok" or (row.state in ("partial", "failed") and not kept.retries)


async def _recorded(journal: SqlJournal, name: str, ids: Collection[str] | None = None) -> Sequence[RunRow]:
    """Return the recorded runs of the batch; with `ids`, only these."""
    is_ours = re.compile(rf"{re.escape(name)}-[0-9a-f]+")
    rows = await journal.runs(prefix=f"{name}-", limit=None, ids=ids)
    return [row for row in rows if is_ours.fullmatch(row.run_id)]


async def _stopped(journal: SqlJournal, name: str, note: Callable[[str], None]) -> Sequence[RunRow]:
    """Return the runs of the batch, when no process executes them: only then their costs are known.

    A process that was killed on another machine holds its runs until its lease ends.
    """
    rows, end = await _recorded(journal, name), anyio.current_time() + 2 * journal.lease
    held = [row.run_id for row in rows if row.state == "running"]
    if not held:
        return rows
    note(f"podium: waiting for {counted(len(held), 'run')} that another process holds")
    while held:
        if anyio.current_time() >= end:
            told = "another process executes runs of this batch"
            raise RunHeld(f"{told}: wait for the end of its command, or choose another --name")
        await anyio.sleep(_LOOK_SECONDS)
        held = [row.run_id for row in await _recorded(journal, name, held) if row.state == "running"]
    return await _recorded(journal, name)


async def _so_far(journal: SqlJournal, run_id: str) -> float | None:
    """Return what a run has cost so far; a call without a recorded end costs what such calls usually do."""
    events = [entry.event for entry in await journal.read(run_id)]
    result = fold(events, await journal.nested(run_id)).result()
    return None if result.cost is None else result.cost - await excess_of(journal, result)
