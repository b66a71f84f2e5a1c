"""`podium parse`: parse a plan text without a config."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from podium.cli import drawing
from podium.cli.arguments import AsJson
from podium.cli.screen import BAD_INPUT, Screen, reporting
from podium.config.source import why_unreadable
from podium.errors import ConfigError, PlanError, PlanInvalid, PlanSyntaxError, QueryError
from podium.plan_text.parser import MAX_CHARS, parse_plan

_EXCERPT = 64
"""Longest excerpt of the line with the error, in characters."""


def parse(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file with the plan text; - for stdin.")],
    *,
    workers: Annotated[
        str, typer.Option(metavar="N|NAMES", help="The number of workers, or their names, as in gpt,claude.")
    ],
    max_steps: Annotated[int, typer.Option(min=1, help="Maximum number of steps.")] = 32,
    as_json: AsJson = False,
) -> None:
    """Parse a plan text and show its steps, or the position and cause of the error."""
    with reporting() as screen:
        _show(screen, file, workers, max_steps=max_steps, as_json=as_json)


def _show(screen: Screen, source: str, workers: str, *, max_steps: int, as_json: bool) -> None:
    """Show the plan in `source`, or its error.

    Raises:
        ConfigError: `workers` is neither a number above 0 nor distinct names.
        QueryError: `source` cannot be read.
    """
    roster = read_roster(workers)
    text = _read(source)
    try:
        plan = parse_plan(text, workers=roster, max_steps=max_steps)
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
        steps: list[dict[str, Any]] = plan.to_json()["steps"]
        screen.result_json({"ok": True, "plan": {"steps": steps}})
    else:
        screen.draw(drawing.plan_table(plan, None if isinstance(roster, int) else roster, screen.shown))


def read_roster(text: str) -> int | list[str]:
    """Parse the number of workers, or their names.

    Raises:
        ConfigError: the text is neither a number above 0 nor distinct names.
    """
    text = text.strip()
    if text.isdecimal() and text.isascii() and int(text[:9]) > 0:
        return int(text[:9])
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names) or text.lstrip("-").isdecimal():
        message = f"--workers {text!r}: give a number above 0, or distinct names, as in 'gpt,claude'"
        raise ConfigError(message)
    return names


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
