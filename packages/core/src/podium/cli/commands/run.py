"""`podium run`: a question or a saved plan in, the answer out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from podium.cli.answer import Answering
from podium.cli.approve_prompt import at_the_terminal
from podium.cli.live.watch import Job, hosted_job
from podium.cli.plan_files import read_plan
from podium.cli.question import read_question
from podium.cli.screen import Screen
from podium.conductor import Conductor
from podium.config import Config
from podium.errors import ConfigError
from podium.hosted import HostedConductor
from podium.policy import Policy
from podium.types.events import Event
from podium.types.messages import Query, read_query
from podium.types.plan import Plan
from podium.types.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be run, and how."""

    question: str | None
    files: Sequence[Path] = ()
    plan: Path | None = None
    """A saved plan; `None` has the question planned."""
    run_id: str | None = None
    """`None` makes one."""
    labels: frozenset[str] = frozenset()
    approve: bool = False
    """Whether each plan is shown at the terminal before it runs."""
    journaled: bool = True
    steps: int | None = None
    rounds: int | None = None
    seconds: float | None = None
    cost: float | None = None


def run_question(screen: Screen, config: Config, asked: Asked, *, as_json: bool, explain: bool) -> None:
    """Run what was asked, show what it came to, and leave with its exit code.

    Raises:
        PodiumError: what was asked cannot be run.
    """
    recorded = asked.journaled and not config.is_hosted and config.journal() is not None
    answering = Answering(screen, as_json=as_json, explain=explain, recorded=recorded)
    conductor = config.conductor(
        steps=asked.steps,
        rounds=asked.rounds,
        seconds=asked.seconds,
        cost=asked.cost,
        journaled=asked.journaled,
    )
    if isinstance(conductor, HostedConductor):
        answering.carry_out(hosted_job(conductor, _hosted_question(asked)))
        return
    policy = None
    if asked.approve:
        policy = Policy(approve=at_the_terminal(screen, answering.view, conductor))
    answering.carry_out(_job(conductor, asked, policy))


def _job(conductor: Conductor, asked: Asked, policy: Policy | None) -> Job:
    query = _read(asked, conductor)

    async def job(listen: Callable[[Event], None]) -> Result:
        return await conductor.run(
            query,
            run_id=asked.run_id,
            labels=asked.labels,
            policy=policy,
            forecast=True,
            on_event=listen,
        )

    return job


def _hosted_question(asked: Asked) -> str:
    if asked.plan is not None:
        raise ConfigError("a hosted conductor makes its own plan: leave out --plan, or give it workers")
    if asked.run_id is not None or asked.labels or asked.approve:
        raise ConfigError("a hosted conductor takes no --run-id, --labels or --approve: leave them out")
    return read_question(asked.question, asked.files)


def _read(asked: Asked, conductor: Conductor) -> Query | Plan:
    if asked.plan is None:
        return read_question(asked.question, asked.files)
    plan = read_plan(asked.plan, conductor.pool.names, conductor.limits.plan_steps)
    if asked.question is None and not asked.files:
        return plan
    return Plan(plan.steps, read_query(read_question(asked.question, asked.files)))
