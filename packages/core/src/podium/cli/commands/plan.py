"""`podium plan`: plan a question without running the plan."""

import json
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import anyio
import typer
from rich.text import Text

from podium.cli import drawing
from podium.cli.arguments import AsJson, ConfigPath, Labels, Question, command, names, read_question
from podium.cli.screen import Screen, reporting
from podium.conductor import Conductor
from podium.config import find_config, load_config
from podium.config.source import why_unwritable
from podium.errors import ConfigError
from podium.hosted import HostedConductor
from podium.secrets import scrub
from podium.types.plan import Plan


def plan(
    question: Question = None,
    *,
    labels: Labels = "",
    config: ConfigPath = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A new file for the plan, for `podium run --plan`."),
    ] = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw only the mermaid flowchart.")] = False,
) -> None:
    """Show the plan for a question, as a table and a flowchart, and run nothing.

    `podium run --plan FILE` runs a plan that was saved with --out or --json, without another call of the
    planner.
    """
    with reporting() as screen:
        if out is not None and out.exists():
            raise ConfigError(f"{out} already exists: name another file")
        conductor = load_config(find_config(config)).conductor(journaled=False)
        asked = read_question(question)
        if isinstance(conductor, HostedConductor):
            raise ConfigError(
                "a hosted conductor does not show its plans: use a config with a planner and workers"
            )
        screen.warn(conductor.warnings)
        made = anyio.run(partial(conductor.plan, asked, labels=names(labels)))
        _show(screen, conductor, made, as_json=as_json, mermaid=mermaid)
        if out is not None:
            _save(made, out)
        run = command(f"run --plan {quote(str(out or 'plan.json'))}", config)
        first = "" if out is not None else "save the plan with `-o plan.json`, then "
        screen.note(f"podium: {first}run it with `{run}`")


def _show(screen: Screen, conductor: Conductor, made: Plan, *, as_json: bool, mermaid: bool) -> None:
    """Write the plan to stdout; its planner and its forecast to stderr."""
    workers, actions = conductor.pool.names, conductor.actions_of(made)
    if as_json:
        screen.result_json(made.to_json())
    else:
        if not mermaid:
            screen.draw(drawing.plan_table(made, workers, screen.shown, actions), Text())
        screen.result(made.to_mermaid(workers, actions))
    if made.why:
        screen.note(f"\n{made.why}" if screen.interactive else made.why)
    screen.draw_note(*drawing.forecast(conductor.forecast(made), screen.shown))


def _save(plan: Plan, path: Path) -> None:
    """Write a plan to a new file.

    Raises:
        ConfigError: the file exists or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(scrub(json.dumps(plan.to_json(), indent=2)) + "\n")
    except FileExistsError as error:
        raise ConfigError(f"{path} already exists: name another file") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error
