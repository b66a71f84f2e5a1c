"""Opens the journal, finds recorded runs by the beginning of their ids, and continues them."""

import re
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio

from podium.budget.limits import OF_RUN, Limits
from podium.cli.arguments import PlanChange
from podium.cli.screen import Screen
from podium.conductor import Conductor
from podium.config import find_config, load_config
from podium.errors import ConfigError, JournalError, RunUnknown
from podium.journal import Entry, Journal, RunRow, SqlJournal
from podium.run_state.reuse import paid_results_of
from podium.run_state.state import limits_of
from podium.types.events import Event, RunEnded
from podium.types.plan import Plan

T = TypeVar("T")

SHORT = 12
"""Length of the shown part of a generated id, in characters; commands accept it in place of the whole id."""
_QUIET_SECONDS = 1.0
"""Seconds after which a command says that it waits."""
_GENERATED = re.compile("[0-9a-f]{32}")


def short_id(run_id: str, length: int = SHORT) -> str:
    """Return the beginning of a generated id, and an id of the user's whole: its beginning may be common."""
    return run_id[:length] if _GENERATED.fullmatch(run_id) else run_id


def look(journal: Journal, read: Callable[[], Awaitable[T]]) -> T:
    """Open the journal, call `read`, and return its value."""

    async def reading() -> T:
        async with journal:
            return await read()

    return anyio.run(reading)


def check_journal(screen: Screen, journal: SqlJournal) -> None:
    """Check that the journal works, and say so if the command will wait for it.

    Raises:
        JournalError: the journal cannot be used.
    """
    waits = f"podium: waiting for the journal in {journal.url}"

    async def probing() -> None:
        late = get_running_loop().call_later(_QUIET_SECONDS, screen.note, waits)
        try:
            await journal.probe()
        except JournalError as error:
            if not error.is_busy:
                raise
            screen.note(f"{waits}: {error}")
        finally:
            late.cancel()

    anyio.run(probing)


async def find_run(journal: Journal, typed: str) -> RunRow:
    """Return the one run whose id begins with `typed`.

    Raises:
        RunUnknown: no run or more than one run matches.
    """
    rows = await journal.runs(limit=3, nested=True, prefix=typed) if typed else ()
    exact = [row for row in rows if row.run_id == typed]
    if len(rows) > 1 and not exact:
        told = ", ".join(row.run_id for row in rows)
        raise RunUnknown(f"more than one run begins with {typed!r} ({told}, …): type more of its id")
    if not rows:
        raise RunUnknown(f"no run begins with {typed!r}: see `podium runs`")
    return (exact or rows)[0]


async def family(journal: Journal, run_id: str) -> list[str]:
    """Return the ids of a run and of all runs nested in it."""
    found = [run_id]
    for nested in await journal.runs(limit=None, nested=True, parent=run_id):
        found += await family(journal, nested.run_id)
    return found


async def read_family(journal: Journal, run_id: str) -> Sequence[Entry]:
    """Return the entries of a run and of the runs nested in it, oldest first."""
    entries = [entry for each in await family(journal, run_id) for entry in await journal.read(each)]
    return sorted(entries, key=lambda entry: entry.at)


def nested_events(entries: Sequence[Entry], run_id: str) -> list[list[Event]]:
    """Return the events of each run in `entries` that is nested in `run_id`."""
    runs: dict[str, list[Event]] = {}
    for entry in entries:
        if entry.run_id != run_id:
            runs.setdefault(entry.run_id, []).append(entry.event)
    return list(runs.values())


def local_time(at: float) -> str:
    """Format a Unix time, in seconds, as date and time in the local time zone."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A recorded run with the conductor of the config."""

    run_id: str
    events: Sequence[Event]
    conductor: Conductor
    config: Path | None = None
    """The value of `--config`."""

    def changed(self, change: PlanChange) -> Plan | None:
        """Return the changed plan of the last round; `None` for no change.

        Raises:
            PodiumError: the run has no plan yet, or `PlanChange.apply` raises it.
        """
        if change == PlanChange():
            return None
        return change.apply(self.plan, self.conductor.pool.names, self.conductor.limits.plan_steps)

    def limits(self, **given: float | None) -> Limits | None:
        """Return the run's limits with the given limits replaced; `None` if none is given.

        Args:
            given: limits by name; `None` keeps the run's limit.
        """
        new = {name: value for name, value in given.items() if value is not None}
        own = self.conductor.limits.keeping(limits_of(self.events))
        return replace(own, **cast("Any", new)) if new else None

    @property
    def kept(self) -> list[str]:
        """The limits of the run that differ from the config's limits, as text."""
        config = self.conductor.limits
        own = config.keeping(limits_of(self.events))
        values = {name: getattr(own, name) for name in OF_RUN if getattr(own, name) != getattr(config, name)}
        return [f"no {name}" if value is None else f"{name} {value:g}" for name, value in values.items()]

    @property
    def is_complete(self) -> bool:
        """Whether the run ended with a complete answer, so that it has nothing left to do."""
        return any(isinstance(event, RunEnded) and event.result.status == "ok" for event in self.events[-1:])

    @property
    def plan(self) -> Plan:
        """The plan of the last round.

        Raises:
            ConfigError: the run has no plan yet, or a worker of the plan is not in the pool.
        """
        plans = paid_results_of(self.events, self.conductor.pool.names).plans
        if not plans:
            raise ConfigError(f"run {self.run_id} has no plan yet")
        return plans[max(plans)].plan


def find_recorded_run(path: Path | None, typed: str) -> RecordedRun:
    """Return the run whose id begins with `typed`, from the journal of the config.

    Args:
        path: the config; `None` for the default config.
        typed: the first characters of the run's id.

    Raises:
        ConfigError: the config is invalid, its conductor is hosted, or it records no runs.
        JournalError: the run is unknown or cannot be read.
    """
    config = load_config(find_config(path))
    if config.is_hosted:
        raise ConfigError("a hosted conductor's runs are not recorded: use a config with workers")
    journal = config.journal()
    if journal is None:
        raise ConfigError(f"{config.path} records no runs: remove `off` in [journal]")

    async def read() -> tuple[str, Sequence[Event]]:
        row = await find_run(journal, typed)
        return row.run_id, [entry.event for entry in await journal.read(row.run_id)]

    run_id, events = look(journal, read)  # before MCP servers start
    conductor = config.conductor()
    assert isinstance(conductor, Conductor)  # the config is not hosted
    return RecordedRun(run_id=run_id, events=events, conductor=conductor, config=path)
