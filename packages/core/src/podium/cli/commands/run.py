"""`podium run`: answer a question, or run a saved plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from podium.cli.answer import Answering, at_the_terminal
from podium.cli.arguments import (
    Approve,
    AsJson,
    Calls,
    ConfigPath,
    InputTokens,
    Labels,
    MaxCost,
    Outputs,
    OutputTokens,
    Question,
    Rounds,
    Seconds,
    Steps,
    names,
    read_plan,
    read_question,
)
from podium.cli.live import Job, hosted_job
from podium.cli.lookup import check_journal
from podium.cli.screen import Screen, reporting
from podium.conductor import Conductor
from podium.config import Config, find_config, load_config
from podium.errors import ConfigError
from podium.hosted import HostedConductor
from podium.policy import Policy
from podium.types.events import Event
from podium.types.messages import Query, read_query
from podium.types.plan import Plan
from podium.types.result import Result


def run(  # noqa: PLR0913 - one parameter for each argument and option
    question: Question = None,
    *,
    file: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Add a text file to the question. Repeatable.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run a saved plan, for its own question by default."),
    ] = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Write the decisions and their reasons to stderr.")
    ] = False,
    steps: Steps = None,
    calls: Calls = None,
    rounds: Rounds = None,
    seconds: Seconds = None,
    max_cost: MaxCost = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    outputs: Outputs = False,
    approve: Approve = False,
    run_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The run's id. An id that was used before continues that run."),
    ] = None,
    labels: Labels = "",
    no_journal: Annotated[bool, typer.Option("--no-journal", help="Do not record the run.")] = False,
) -> None:
    """Answer a question, or run a saved plan."""
    with reporting() as screen:
        asked = _Asked(
            question=question,
            files=tuple(file or ()),
            plan=plan,
            run_id=run_id,
            labels=names(labels),
            approve=approve,
            journaled=not no_journal,
            limits={
                "steps": steps,
                "calls": calls,
                "rounds": rounds,
                "seconds": seconds,
                "cost": max_cost,
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
            },
            config=config,
        )
        loaded = load_config(find_config(config))
        _run(screen, loaded, asked, as_json=as_json, explain=explain, outputs=outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The query and the options of a run."""

    question: str | None
    files: Sequence[Path] = ()
    plan: Path | None = None
    """A file with a saved plan; `None` for a question that needs planning."""
    run_id: str | None = None
    """`None` for a new id."""
    labels: frozenset[str] = frozenset()
    approve: bool = False
    """Whether each plan needs approval at the terminal."""
    journaled: bool = True
    limits: Mapping[str, float | None]
    """By the names of the fields of `Limits`; `None` keeps the config's."""
    config: Path | None = None
    """The value of `--config`."""


def _run(
    screen: Screen, config: Config, asked: _Asked, *, as_json: bool, explain: bool, outputs: bool
) -> None:
    """Run the question or plan, show the result, and exit with its exit code."""
    journal = config.journal() if asked.journaled and not config.is_hosted else None
    if asked.run_id is not None and journal is None and not config.is_hosted:
        off = f"remove `off` in [journal] of {config.path}" if asked.journaled else "leave out --no-journal"
        raise ConfigError(f"--run-id needs a journal, and this run is not recorded: {off}, or --run-id")
    if journal is not None:
        check_journal(screen, journal)  # before MCP servers start
    answering = Answering(
        screen,
        as_json=as_json,
        explain=explain,
        outputs=outputs,
        recorded=journal is not None,
        config=asked.config,
    )
    conductor = config.conductor(limits=asked.limits, journaled=asked.journaled)
    if isinstance(conductor, HostedConductor):
        answering.carry_out(hosted_job(conductor, _hosted_question(asked)))
        return
    screen.warn(conductor.warnings)
    policy = None
    if asked.approve:
        ask = conductor.policy.ask
        policy = Policy(approve=at_the_terminal(screen, answering.view, conductor), ask=ask)
    answering.carry_out(_job(conductor, asked, policy))


def _job(conductor: Conductor, asked: _Asked, policy: Policy | None) -> Job:
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


def _hosted_question(asked: _Asked) -> str:
    if asked.plan is not None:
        raise ConfigError(
            "a hosted conductor makes its own plan: leave out --plan, or use a config with workers"
        )
    if asked.run_id is not None or asked.labels or asked.approve:
        raise ConfigError(
            "a hosted conductor does not support --run-id, --labels or --approve: leave them out"
        )
    return read_question(asked.question, asked.files)


def _read(asked: _Asked, conductor: Conductor) -> Query | Plan:
    if asked.plan is None:
        return read_question(asked.question, asked.files)
    plan = read_plan(asked.plan, conductor.pool.names, conductor.limits.plan_steps)
    if asked.question is None and not asked.files:
        return plan
    return Plan(plan.steps, read_query(read_question(asked.question, asked.files)))
