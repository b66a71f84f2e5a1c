"""`podium parse`: what a plan text says. Needs no config."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from podium.cli import drawing
from podium.cli.arguments import AsJson
from podium.cli.screen import BAD_INPUT, Screen, reporting
from podium.errors import ConfigError, PlanError, PlanInvalid, PlanSyntaxError, QueryError
from podium.plan_text.parser import MAX_CHARS, parse_plan

_EXCERPT = 64
"""Characters shown of the line an error is in."""


def parse(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The plan text; - for stdin.")],
    *,
    workers: Annotated[
        str, typer.Option(metavar="N|NAMES", help="How many workers there are, or their names: gpt,claude")
    ],
    max_steps: Annotated[int, typer.Option(min=1, help="Most steps the plan may have.")] = 32,
    as_json: AsJson = False,
) -> None:
    """Read a plan text and show its steps, or what is wrong with it and where."""
    with reporting() as screen:
        _show(screen, file, workers, max_steps=max_steps, as_json=as_json)


def _show(screen: Screen, source: str, workers: str, *, max_steps: int, as_json: bool) -> None:
    """Show the plan in `source`, or what is wrong with it.

    Raises:
        ConfigError: `workers` holds no name, or one name twice.
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
    """Read the number of workers, or their names.

    Raises:
        ConfigError: the text is neither a number above 0 nor names that differ.
    """
    text = text.strip()
    if text.isdecimal() and text.isascii() and int(text[:9]) > 0:
        return int(text[:9])
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names) or text.lstrip("-").isdecimal():
        message = f"--workers {text!r}: give a number above 0, or names that differ, as in 'gpt,claude'"
        raise ConfigError(message)
    return names


def _read(source: str) -> str:
    most = 4 * (MAX_CHARS + 1)  # no character of UTF-8 is longer; what is beyond is too long anyway
    try:
        if source == "-":
            data = sys.stdin.buffer.read(most)
        else:
            with Path(source).open("rb") as file:
                data = file.read(most)
    except (OSError, ValueError) as error:
        raise QueryError(f"the plan text {source!r} cannot be read: {error}") from error
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _pointed(text: str, position: int) -> str:
    """Return the line of `text` that holds `position`, and under it a caret."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    number, column = text.count("\n", 0, position) + 1, position - start
    cut = max(0, column - _EXCERPT // 2)
    before = line[cut:column].replace("\t", " ")
    excerpt = before + line[column : cut + _EXCERPT].replace("\t", " ")
    return f"{number:>6} | {excerpt}\n       | {' ' * drawing.width(before)}^ column {column + 1}"
