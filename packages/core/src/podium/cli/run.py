"""`podium run`: a question or a saved plan in, the answer out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import typer
from rich.markdown import Markdown

from podium.cli.account import result_json, status_line
from podium.cli.board import Board
from podium.cli.question import read_question
from podium.cli.screen import NO_ANSWER, PARTIAL, Screen
from podium.cli.watch import follow, watch
from podium.conductor import Conductor
from podium.errors import ConfigError, PlanInvalid, QueryError
from podium.files import read_text
from podium.hosted import HostedConductor
from podium.messages import MAX_QUERY_CHARS, Query, read_query
from podium.parse import parse_plan
from podium.plan import Plan
from podium.result import Result

_MOST_BYTES = 8 * MAX_QUERY_CHARS
"""A saved plan holds its question, whose characters JSON may escape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be run."""

    question: str | None
    files: Sequence[Path] = ()
    plan: Path | None = None
    """A saved plan; `None` has the question planned."""


def run_question(
    screen: Screen, conductor: Conductor | HostedConductor, asked: Asked, *, as_json: bool, explain: bool
) -> None:
    """Run what was asked, show what it came to, and leave with its exit code.

    Raises:
        PodiumError: what was asked cannot be run.
    """
    query = _read(asked, conductor)
    if screen.interactive and not as_json:
        result = anyio.run(watch, conductor, query, screen)
    else:
        result = anyio.run(follow, conductor, query, Board())
    _show_result(screen, result, as_json=as_json, explain=explain)
    if result.status != "ok":
        raise typer.Exit(PARTIAL if result.status == "partial" else NO_ANSWER)


def show_answer(screen: Screen, result: Result) -> None:
    """Show the answer on stdout: in a terminal as Markdown, else verbatim."""
    if screen.interactive:
        screen.draw(Markdown(screen.shown(result.answer), hyperlinks=False))
    elif result.answer:
        screen.result(result.answer)


def _show_result(screen: Screen, result: Result, *, as_json: bool, explain: bool) -> None:
    if as_json:
        screen.result_json(result_json(result))
        return
    show_answer(screen, result)
    if screen.interactive or result.status != "ok":
        screen.note(f"podium: {status_line(result)}")
    if explain:
        screen.note(result.explain())


def _read(asked: Asked, conductor: Conductor | HostedConductor) -> Query | Plan:
    if asked.plan is None:
        return read_question(asked.question, asked.files)
    if isinstance(conductor, HostedConductor):
        raise ConfigError("a hosted conductor makes its own plan: leave out --plan, or give it workers")
    plan = _read_plan(asked.plan, conductor)
    if asked.question is None and not asked.files:
        return plan
    return Plan(plan.steps, read_query(read_question(asked.question, asked.files)))


def _read_plan(path: Path, conductor: Conductor) -> Plan:
    """Read what `podium plan --json` wrote, or a plan in any of the three spellings."""
    try:
        text = read_text(path, _MOST_BYTES)
    except (OSError, ValueError) as error:
        raise QueryError(f"the plan {path} cannot be read: {error}") from error
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, dict) and "schema" in data:
        return Plan.from_json(_numbered(data, conductor.pool.names))
    return parse_plan(text, workers=conductor.pool.names, max_steps=conductor.limits.plan_steps)


def _numbered(data: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a saved plan with numbers in place of workers' names, which a person may have put in."""
    rows = data.get("steps")
    if not isinstance(rows, list):
        return dict(data)
    steps = []
    for index, row in enumerate(rows):
        name = row.get("worker") if isinstance(row, dict) else None
        if not isinstance(name, str):
            steps.append(row)
        elif name in names:
            steps.append({**row, "worker": names.index(name)})
        else:
            told = f"step {index} names worker {name!r:.80}: the workers are {', '.join(names)}"
            raise PlanInvalid("bad_worker", told, step=index)
    return {**data, "steps": steps}
