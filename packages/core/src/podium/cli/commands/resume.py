"""`podium resume`, `approve`, `refuse` and `replay`: what can still be done with a recorded run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from getpass import getuser

import anyio

from podium.cli.answer import Answering
from podium.cli.approve_prompt import at_the_terminal, verdict_on
from podium.cli.plan_files import PlanChange
from podium.cli.run_lookup import SHORT, find_run, look
from podium.cli.screen import Screen
from podium.conductor import Conductor
from podium.config import Config
from podium.errors import ConfigError
from podium.policy import Policy
from podium.replay import replay
from podium.resume.bills import paid_results_of
from podium.resume.rebuild import waiting_for
from podium.types.events import Event
from podium.types.plan import Plan
from podium.types.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """A recorded run, and who can go on with it."""

    run_id: str
    events: Sequence[Event]
    conductor: Conductor

    def changed(self, change: PlanChange) -> Plan | None:
        """Return the plan of its last round as changed; `None` where it is to stay as it is.

        Raises:
            PodiumError: as `PlanChange.apply`; or the run has no plan yet.
        """
        if change == PlanChange():
            return None
        return change.apply(self.plan, self.conductor.pool.names, self.conductor.limits.plan_steps)

    @property
    def plan(self) -> Plan:
        """The plan of its last round.

        Raises:
            ConfigError: it has none yet, or one whose workers are not there.
        """
        plans = paid_results_of(self.events, self.conductor.pool.names).plans
        if not plans:
            raise ConfigError(f"run {self.run_id} has no plan yet that could be changed")
        return plans[max(plans)].plan

    def decide(self, plan: Plan | None, *, approved: bool, by: str, why: str) -> None:
        """Record what someone says of the plan it waits with, which they may have changed.

        Raises:
            PodiumError: as `Conductor.decide`.
        """
        anyio.run(partial(self.conductor.decide, self.run_id, approved=approved, plan=plan, by=by, why=why))


def resume_run(  # noqa: PLR0913 - the facts of one resumption
    screen: Screen,
    config: Config,
    typed: str,
    change: PlanChange,
    *,
    approve: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Go on with a run, show what it comes to, and leave with its exit code.

    Args:
        screen: where it is shown.
        config: of the conductor that goes on with it.
        typed: the run.
        change: how its last plan is changed.
        approve: whether the person at the terminal is asked for the plan it waits with, and for new ones.
        force: whether it goes on though it was given up as dead.
        as_json: whether the result is written as JSON.

    Raises:
        PodiumError: there is no such run, or it cannot go on.
    """
    recorded = _recorded(config, typed)
    answering = Answering(screen, as_json=as_json, recorded=True)
    plan, policy = recorded.changed(change), None
    if approve:
        policy = Policy(approve=at_the_terminal(screen, answering.view, recorded.conductor))
        if waiting_for(recorded.events) is not None:
            _decide_at_the_terminal(screen, recorded, plan)
            plan = None

    async def job(listen: Callable[[Event], None]) -> Result:
        return await recorded.conductor.resume(
            recorded.run_id, plan=plan, policy=policy, force=force, on_event=listen
        )

    answering.carry_out(job)


def _decide_at_the_terminal(screen: Screen, recorded: _Recorded, changed: Plan | None) -> None:
    """Show the plan that a run waits with, as it is or changed, and record what the person there says."""
    verdict = anyio.run(verdict_on, screen, changed or recorded.plan, recorded.conductor)
    plan = verdict if isinstance(verdict, Plan) else changed
    if isinstance(verdict, str):
        recorded.decide(None, approved=False, by=getuser(), why=verdict)
    else:
        recorded.decide(plan, approved=True, by=getuser(), why="")


def decide_on_run(  # noqa: PLR0913 - the facts of one decision
    screen: Screen, config: Config, typed: str, change: PlanChange, *, approved: bool, by: str, why: str
) -> None:
    """Record what someone says of the plan that a run waits with.

    Raises:
        PodiumError: there is no such run, it waits for nothing, or the plan cannot be as changed.
    """
    recorded = _recorded(config, typed)
    recorded.decide(recorded.changed(change), approved=approved, by=by, why=why)
    said, short = "approved" if approved else "refused", recorded.run_id[:SHORT]
    screen.note(f"podium: {said} the plan of run {recorded.run_id}; go on with `podium resume {short}`")


def replay_run(screen: Screen, config: Config, typed: str, change: PlanChange, *, as_json: bool) -> None:
    """Do a run over, show what it comes to, and leave with its exit code.

    Raises:
        PodiumError: there is no such run, or it cannot be done over.
    """
    recorded = _recorded(config, typed)
    plan = recorded.changed(change)

    async def job(listen: Callable[[Event], None]) -> Result:
        return await replay(recorded.conductor, recorded.events, plan=plan, on_event=listen)

    Answering(screen, as_json=as_json, recorded=True).carry_out(job)


def _recorded(config: Config, typed: str) -> _Recorded:
    conductor, journal = config.conductor(), config.journal()
    if not isinstance(conductor, Conductor):
        raise ConfigError("a hosted conductor's runs are not recorded: use a config with workers")
    if journal is None:
        raise ConfigError(f"{config.path} records no runs: take out `off` in [journal]")

    async def read() -> _Recorded:
        row = await find_run(journal, typed)
        events = [entry.event for entry in await journal.read(row.run_id)]
        return _Recorded(run_id=row.run_id, events=events, conductor=conductor)

    return look(journal, read)
