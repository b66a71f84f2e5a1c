"""`podium plan`: plan a question without running the plan, or read plan text."""

import json
import sys
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from podium.cli import drawing
from podium.cli.arguments import AsJson, ConfigPath, Labels, Question, command, exclude, names, read_question
from podium.cli.screen import BAD_INPUT, Screen, reporting
from podium.config.source import why_unreadable, why_unwritable
from podium.errors import ConfigError, PlanError, PlanInvalid, PlanSyntaxError, QueryError
from podium.plan_text.parser import MAX_CHARS, parse_plan
from podium.secrets import scrub

if TYPE_CHECKING:
    from podium.conductor import Conductor
    from podium.types.plan import Plan

_EXCERPT = 64
"""Longest excerpt of the line with the error, in characters."""
_MAX_STEPS = 32


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
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw only the mermaid flowchart.")] = False,
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
    max_steps: Annotated[
        int | None, typer.Option(min=1, help=f"With --parse: maximum number of steps. Default: {_MAX_STEPS}.")
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
            others = {"a question": question, "--labels": labels, "--config": config, "--out": out}
            exclude("--parse", others | {"--mermaid": mermaid})
            if workers is None:
                raise ConfigError("--parse needs --workers: their number, or their names, as in gpt,claude")
            _parse(screen, parse, read_roster(workers), max_steps or _MAX_STEPS, as_json=as_json)
            return
        if workers is not None or max_steps is not None:
            raise ConfigError("--workers and --max-steps need --parse FILE: leave them out")
        if out is not None and out.exists():
            raise ConfigError(f"{out} already exists: name another file")
        made = _plan(screen, config, question, labels, as_json=as_json, mermaid=mermaid)
        if out is not None:
            _save(made, out)
        run = command(f"run --plan {quote(str(out or 'plan.json'))}", config)
        first = "" if out is not None else "save the plan with `-o plan.json`, then "
        screen.note(f"podium: {first}run it with `{run}`")


def _plan(
    screen: Screen, config: Path | None, question: str | None, labels: str, *, as_json: bool, mermaid: bool
) -> "Plan":
    from podium.config import find_config, load_config  # noqa: PLC0415 - --parse does not wait for them

    found = load_config(find_config(config))
    conductor = found.conductor(journaled=False)
    asked = read_question(question)
    if found.is_hosted:
        raise ConfigError(
            "a hosted conductor does not show its plans: use a config with a planner and workers"
        )
    screen.warn(conductor.warnings)
    made = anyio.run(partial(conductor.plan, asked, labels=names(labels)))
    _show(screen, conductor, made, as_json=as_json, mermaid=mermaid)
    return made


def _show(screen: Screen, conductor: "Conductor", made: "Plan", *, as_json: bool, mermaid: bool) -> None:
    """Write the plan to stdout; its planner and its forecast to stderr."""
    workers, actions = conductor.pool.names, conductor.actions_of(made)
    if as_json:
        screen.result_json(made.to_json())
    else:
        if not mermaid:
            screen.draw(drawing.plan_table(made, workers, screen.shown, actions), "")
        screen.result(made.to_mermaid(workers, actions))
    if made.why:
        screen.note(f"\n{made.why}" if screen.interactive else made.why)
    screen.draw_note(*drawing.forecast(conductor.forecast(made), screen.shown))


def _save(plan: "Plan", path: Path) -> None:
    """Write a plan to a new file, or raise `ConfigError`."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(scrub(json.dumps(plan.to_json(), indent=2)) + "\n")
    except FileExistsError as error:
        raise ConfigError(f"{path} already exists: name another file") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error


def _parse(screen: Screen, source: str, roster: int | list[str], max_steps: int, *, as_json: bool) -> None:
    """Show the plan in `source`, or its error."""
    text = _read(source)
    try:
        read = parse_plan(text, workers=roster, max_steps=max_steps)
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
        screen.draw(drawing.plan_table(read, None if isinstance(roster, int) else roster, screen.shown))


def read_roster(text: str) -> int | list[str]:
    """Parse the number of workers, or their names, or raise `ConfigError`."""
    text = text.strip()
    if text.isdecimal() and text.isascii() and int(text[:9]) > 0:
        return int(text[:9])
    found = [name.strip() for name in text.split(",")]
    if not all(found) or len(set(found)) < len(found) or text.lstrip("-").isdecimal():
        raise ConfigError(f"--workers {text!r}: give a number above 0, or distinct names, as in 'gpt,claude'")
    return found


def _read(source: str) -> str:
    most = 4 * (MAX_CHARS + 1)  # UTF-8 has at most 4 bytes per character
    try:
        if source == "-":
            data = sys.stdin.buffer.read(most)
        else:
            with Path(source).open("rb") as file:
                data = file.read(most)
    except (OSError, ValueError) as error:
        raise QueryError(f"the plan text {source!r} cannot be read: {why_unreadable(error)}") from error
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _pointed(text: str, position: int) -> str:
    """Return the line of `text` at `position`, and under it a caret."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    number, column = text.count("\n", 0, position) + 1, position - start
    cut = max(0, column - _EXCERPT // 2)
    before = line[cut:column].replace("\t", " ")
    excerpt = before + line[column : cut + _EXCERPT].replace("\t", " ")
    return f"{number:>6} | {excerpt}\n       | {' ' * drawing.width(before)}^ column {column + 1}"
