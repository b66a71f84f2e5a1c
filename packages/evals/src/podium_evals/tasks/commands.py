"""`podium evals questions`: write new questions of Reasoning Gym to a file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from podium.cli.screen import Screen, reporting
from podium.errors import ConfigError
from podium_evals.recorded.reasoning_gym import KINDS
from podium_evals.tasks.gym_questions import gym_rows, write_questions


def questions(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The new file.")],
    count: Annotated[int, typer.Option(min=1, help="Number of questions of each kind.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed: another seed gives other questions.")] = 0,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A kind; may be repeated. Default: all kinds."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=JSON", help="A setting for the kinds; may be repeated."),
    ] = None,
) -> None:
    """Write new questions of Reasoning Gym to a file."""
    with reporting() as screen:
        if out.exists():
            raise ConfigError(f"{out} already exists: choose another file")
        rows = _made(screen, kind, count, seed, setting or ())
        write_questions(rows, out)
        screen.note(f"podium: wrote {len(rows):,} questions to {out}; their grader is {rows[0]['grader']}")


def _made(
    screen: Screen, kinds: list[str] | None, count: int, seed: int, settings: Sequence[str]
) -> list[Mapping[str, Any]]:
    given = dict(_setting(each) for each in settings)
    found = list[Mapping[str, Any]]()
    for kind in sorted(KINDS) if kinds is None else dict.fromkeys(kinds):
        try:
            found += gym_rows(kind, count, seed=seed, **given)
        except ConfigError as error:
            if kinds is not None or "rejects the right answer" not in str(error):
                raise
            screen.note(f"podium: left out: {error}")
    return found


def _setting(told: str) -> tuple[str, Any]:
    name, equals, value = told.partition("=")
    try:
        if equals and name.isidentifier():
            return name, json.loads(value)
    except ValueError:
        pass
    raise ConfigError(f"--setting {told!r}: write NAME=JSON, as in min_animals=3")
