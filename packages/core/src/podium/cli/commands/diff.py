"""`podium diff`: show the differences between two recorded runs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from podium import replay
from podium.cli.answer import status_line
from podium.cli.arguments import AsJson, ConfigPath, Run
from podium.cli.lookup import find_run, look, nested_events, read_family, short_id
from podium.cli.screen import Screen, money, reporting
from podium.config import find_journal
from podium.journal import Journal
from podium.run_state.state import result_of
from podium.types.result import Result

_EXCERPT = 200
"""Longest excerpt of a text that differs, in characters."""


def diff(
    first: Run,
    second: Annotated[str, typer.Argument(metavar="RUN")],
    *,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Show how two runs differ: plans, outputs, costs."""
    with reporting() as screen:
        _show(screen, find_journal(config), first, second, as_json=as_json)


def _show(screen: Screen, journal: Journal, first_typed: str, second_typed: str, *, as_json: bool) -> None:
    """Show the differences between two runs.

    Raises:
        JournalError: a run is unknown or cannot be read.
    """

    async def read(typed: str) -> Result:
        row = await find_run(journal, typed)
        entries = await read_family(journal, row.run_id)
        own = [entry.event for entry in entries if entry.run_id == row.run_id]
        return result_of(own, nested_events(entries, row.run_id))

    async def read_both() -> tuple[Result, Result]:
        return await read(first_typed), await read(second_typed)

    first, second = results = look(journal, read_both)
    differences = replay.diff(first, second)
    if as_json:
        found = [asdict(difference) for difference in differences]
        screen.result_json({"runs": [first.run_id, second.run_id], "differences": found})
        return
    for result in results:
        code = "" if result.problem is None else f" ({result.problem.code})"
        screen.result(f"{short_id(result.run_id)}  {status_line(result)}{code}")
    if differences:
        screen.draw(_differences(screen, differences, results))
    else:
        screen.result("The runs differ in nothing but times.")


def _differences(
    screen: Screen, differences: Sequence[replay.Difference], results: Sequence[Result]
) -> Table:
    shown = tuple(screen.shown(short_id(result.run_id)) for result in results)
    sides = (Column(run_id, ratio=1) for run_id in shown)
    heads = (Column(head, no_wrap=True) for head in ("where", "what"))
    table = Table(*heads, *sides, expand=True, box=None, header_style="dim", pad_edge=False)
    for difference in differences:
        where = "run" if difference.step is None else _place(difference, results)
        values = (difference.before, difference.after)
        texts = (Text(_told(screen, difference.what, value)) for value in values)
        table.add_row(where, difference.what, *texts)
    return table


def _place(difference: replay.Difference, results: Sequence[Result]) -> str:
    several = any(len(result.rounds) > 1 for result in results)
    return (f"round {difference.round}, " if several else "") + f"step {difference.step}"


def _told(screen: Screen, what: str, value: object) -> str:
    if what == "cost" and (value is None or isinstance(value, float | int)):
        return money(value)
    if value is None:
        return "-"
    if isinstance(value, float | int):
        return f"{value:,}"
    text = " ".join(screen.shown(value if isinstance(value, str) else json.dumps(value)).split())
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"
