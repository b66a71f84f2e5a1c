"""`podium plan`: plan a question without running the plan, or read plan text."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import anyio
import typer
from rich.cells import cell_len

from podium.cli.arguments import (
    AsJson,
    ConfigPath,
    Labels,
    Question,
    command,
    exclude,
    names,
    read_file,
    read_question,
    read_stdin,
)
from podium.cli.drawing import plan_table
from podium.cli.screen import BAD_INPUT, Screen, reporting
from podium.config import find_config, load_config
from podium.config.source import why_unwritable
from podium.errors import ConfigError, PlanError, PlanInvalid, PlanSyntaxError
from podium.plan_text.parser import MAX_CHARS, parse_plan
from podium.secrets import scrub
from podium.types.forecast import explain_forecast
from podium.types.plan import Plan

_EXCERPT = 64
"""Longest excerpt of the line with the error, in characters."""
_MAX_STEPS = 32
"""Maximum number of steps of a parsed plan text."""


def plan(  # noqa: PLR0913 - one parameter for each argument and option
    question: Question = None,
    *,
    labels: Labels = "",
    config: ConfigPath = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A new file for the plan, for `podium run --plan`."),
    ] = None,
    parse: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Only read this plan text; - for stdin. Needs --workers."),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="N|NAMES", help="With --parse: the number of workers, or their names, as in gpt,claude."
        ),
    ] = None,
) -> None:
    """Show the plan for a question, and run nothing.

    The plan is a table and a flowchart. `podium run --plan FILE` runs a plan that was saved with --out or
    --json, without another call of the planner.

    With --parse, the steps of a plan text are shown, or the position and cause of the error. No model is
    called, and no config is needed.
    """
    with reporting() as screen:
        if parse is not None:
            exclude("--parse", {"a question": question, "--labels": labels, "--config": config, "--out": out})
            if workers is None:
                raise ConfigError("--parse needs --workers: their number, or their names, as in gpt,claude")
            _parse(screen, parse, _read_roster(workers), as_json=as_json)
        elif workers is not None:
            raise ConfigError("--workers needs --parse FILE: leave it out")
        else:
            _plan(screen, config, question, labels, out, as_json=as_json)


def _plan(
    screen: Screen, config: Path | None, question: str | None, labels: str, out: Path | None, *, as_json: bool
) -> None:
    """Write the plan to stdout, or also to a file; its reason and its forecast to stderr."""
    if out is not None and out.exists():
        raise ConfigError(f"{out} already exists: name another file")
    loaded = load_config(find_config(config))
    conductor = loaded.conductor(journaled=False)
    asked = read_question(question)
    if loaded.is_hosted:
        told = "a hosted conductor does not show its plans: use a config with a planner and workers"
        raise ConfigError(told)
    screen.warn(conductor.warnings)
    made = anyio.run(partial(conductor.plan, asked, labels=names(labels)))
    workers, actions = conductor.pool.names, conductor.actions_of(made)
    if as_json:
        screen.result_json(made.to_json(workers))
    else:
        screen.draw(plan_table(made, workers, screen.shown, actions), "")
        screen.result(made.to_mermaid(workers, actions))
    if made.why:
        screen.note(made.why)
    screen.note(explain_forecast(conductor.forecast(made)))
    if out is not None:
        _save(made, workers, out)
    run = command(f"run --plan {quote(str(out or 'plan.json'))}", config)
    first = "" if out is not None else "save the plan with `-o plan.json`, then "
    screen.note(f"podium: {first}run it with `{run}`")


def _save(plan: Plan, workers: Sequence[str], path: Path) -> None:
    """Write a plan to a new file, or raise `ConfigError`."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(scrub(json.dumps(plan.to_json(workers), indent=2)) + "\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error


def _parse(screen: Screen, source: str, roster: int | list[str], *, as_json: bool) -> None:
    """Show the plan in `source`, or its error."""
    most = 4 * MAX_CHARS  # UTF-8 has at most 4 bytes per character
    text = read_stdin() if source == "-" else read_file(Path(source), most, "the plan text ")
    try:
        read = parse_plan(text, workers=roster, max_steps=_MAX_STEPS)
    except PlanError as error:
        position = error.position if isinstance(error, PlanSyntaxError | PlanInvalid) else None
        if as_json:
            problem = {"code": error.code, "message": str(error), "position": position}
            screen.result_json({"ok": False, "error": problem})
        else:
            screen.note(f"podium: {error.code}: {error}")
            if position is not None:
                screen.note(_pointed(text, position))
        raise typer.Exit(BAD_INPUT) from error
    if as_json:
        screen.result_json({"ok": True, "plan": {"steps": read.to_json()["steps"]}})
    else:
        screen.draw(plan_table(read, None if isinstance(roster, int) else roster, screen.shown))


def _read_roster(text: str) -> int | list[str]:
    """Parse the number of workers, or their names, or raise `ConfigError`."""
    text = text.strip()
    if text.isdecimal() and text.isascii() and int(text[:9]) > 0:
        return int(text[:9])
    found = [name.strip() for name in text.split(",")]
    if not all(found) or len(set(found)) < len(found) or text.lstrip("-").isdecimal():
        raise ConfigError(f"--workers {text!r}: give a number above 0, or distinct names, as in 'gpt,claude'")
    return found


def _pointed(text: str, position: int) -> str:
    """Return the line of `text` at `position`, and under it a caret."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    number, column = text.count("\n", 0, position) + 1, position - start
    cut = max(0, column - _EXCERPT // 2)
    before = line[cut:column].replace("\t", " ")
    excerpt = before + line[column : cut + _EXCERPT].replace("\t", " ")
    return f"{number:>6} | {excerpt}\n       | {' ' * cell_len(before)}^ column {column + 1}"
