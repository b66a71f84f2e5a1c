"""`podium run`: answer a question."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from podium.cli import arguments
from podium.cli.answer import Answering, Approver
from podium.cli.arguments import check_journal, names, read_asked, tell_unfinished
from podium.cli.screen import reporting
from podium.config import Variant, find_config, load_config
from podium.errors import ConfigError


def run(  # noqa: PLR0913 - one parameter for each argument and option
    question: arguments.Question = None,
    *,
    file: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Add a text file to the question. Repeatable.")
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Run a plan of [plans], or of a file, for its own question."),
    ] = None,
    arg: arguments.Args = None,
    config: arguments.ConfigPath = None,
    as_json: arguments.AsJson = False,
    steps: arguments.Steps = None,
    calls: arguments.Calls = None,
    rounds: arguments.Rounds = None,
    seconds: arguments.Seconds = None,
    cost: arguments.Cost = None,
    input_tokens: arguments.InputTokens = None,
    output_tokens: arguments.OutputTokens = None,
    outputs: arguments.Outputs = False,
    approve: arguments.Approve = False,
    run_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The run's id. An id that was used before continues that run."),
    ] = None,
    labels: arguments.Labels = "",
    no_journal: Annotated[bool, typer.Option("--no-journal", help="Do not record the run.")] = False,
) -> None:
    """Answer a question, or run a saved plan."""
    with reporting() as screen:
        loaded = load_config(find_config(config))
        journal = None if no_journal else loaded.journal()
        if run_id is not None and journal is None:
            off = "leave out --no-journal" if no_journal else f"remove `off` in [journal] of {loaded.path}"
            raise ConfigError(f"--run-id needs a journal, and this run is not recorded: {off}, or --run-id")
        if journal is not None:
            check_journal(screen, journal)  # before MCP servers start
        limits = {"steps": steps, "calls": calls, "rounds": rounds, "seconds": seconds, "cost": cost}
        limits |= {"input_tokens": input_tokens, "output_tokens": output_tokens}
        approver = Approver(screen) if approve else None
        variant = Variant(approve=approver.decide if approver else None)
        conductor = loaded.conductor(limits=limits, journaled=not no_journal, variant=variant)
        is_recorded = journal is not None
        answering = Answering(
            screen=screen,
            as_json=as_json,
            outputs=outputs,
            is_recorded=is_recorded,
            config=config,
            if_recorded="the run had ended: this is its recorded result, and nothing was called",
        )
        screen.warn(conductor.warnings)
        answering.ask_persons(conductor)
        if approver is not None:
            approver.conductor, approver.view = conductor, answering.view
        asked = read_asked(conductor, plan, arg or [], question, file or [])
        if plan is not None and run_id is None:
            tell_unfinished(screen, journal, conductor, plan, config)
        own = None if set(limits.values()) == {None} else conductor.limits  # also for a run that continues
        go = partial(conductor.run, asked, run_id=run_id, labels=names(labels), limits=own)
        answering.carry_out(lambda listen: go(forecast=True, on_event=listen))
