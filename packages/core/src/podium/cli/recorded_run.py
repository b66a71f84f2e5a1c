"""A recorded run together with a conductor that can continue it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from podium.budget.limits import OF_RUN, Limits
from podium.cli.plan_files import PlanChange
from podium.cli.run_lookup import find_run, look
from podium.conductor import Conductor
from podium.config import find_config, load_config
from podium.errors import ConfigError
from podium.resume.rebuild import limits_of
from podium.resume.reuse import paid_results_of
from podium.types.events import Event, RunEnded
from podium.types.plan import Plan


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
