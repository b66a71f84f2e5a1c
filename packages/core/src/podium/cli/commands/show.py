"""`podium show`: show a recorded run."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from podium.cli import drawing
from podium.cli.answer import charge_line, problem_line, result_json, status_line, step_outputs
from podium.cli.arguments import AsJson, ConfigPath, Run
from podium.cli.drawing.run_table import RunTable
from podium.cli.live import LiveState, run_notes
from podium.cli.lookup import find_run, local_time, look, nested_events, read_family, short_id
from podium.cli.screen import Screen, counted, reporting
from podium.config import find_journal
from podium.journal import Entry, Journal, RunRow
from podium.run_state.state import result_of
from podium.types.events import RunStarted


def show(
    run: Run,
    *,
    events: Annotated[
        bool, typer.Option("--events", help="Write all recorded events as JSON lines.")
    ] = False,
    outputs: Annotated[bool, typer.Option("--outputs", help="Write the output of each step too.")] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Show a recorded run: plans, steps, calls, costs and the reasons for decisions."""
    with reporting() as screen:
        _show(screen, find_journal(config), run, as_json=as_json, events=events, outputs=outputs)


def _show(
    screen: Screen, journal: Journal, typed: str, *, as_json: bool, events: bool, outputs: bool
) -> None:
    """Show a run: its question, plans, steps, calls, cost and answer.

    Raises:
        JournalError: the run is unknown or cannot be read.
    """

    async def read() -> tuple[RunRow, Sequence[Entry]]:
        row = await find_run(journal, typed)
        return row, await read_family(journal, row.run_id)

    row, entries = look(journal, read)
    if events:
        for entry in entries:
            screen.result_json(_plain(entry), indent=None)
        return
    own = [entry.event for entry in entries if entry.run_id == row.run_id]
    result, started = result_of(own, nested_events(entries, row.run_id)), own[0]
    assert isinstance(started, RunStarted)
    if as_json:
        facts = {"state": row.state, "began": row.began, "ended": row.ended, "parent": row.parent}
        facts |= {"recoveries": row.recoveries, "labels": sorted(started.labels), "recalls": started.recalls}
        facts["hash"] = next(entry.hash for entry in reversed(entries) if entry.run_id == row.run_id)
        query = [message.to_wire() for message in started.query]
        screen.result_json({**result_json(result), **facts, "query": query})
        return
    screen.result(_heading(row, started))
    screen.draw(*_drawings(screen, entries))
    for output in step_outputs(result) if outputs else ():
        screen.result(f"\n{output}")
    if result.answer:
        screen.result(f"\n{result.answer}")
    screen.result(f"\n{status_line(result)}")
    for line in filter(None, [charge_line(result), problem_line(result)]):
        screen.result(line)
    if result.forecast is not None and result.rounds:
        screen.result("")
        outcomes = result.rounds[0].outcomes
        began = any(outcome.started is not None for outcome in outcomes)
        screen.draw(*drawing.forecast(result.forecast, screen.shown, outcomes if began else None))


def _heading(row: RunRow, started: RunStarted) -> str:
    facts = [f"run {row.run_id}", row.state, local_time(row.began)]
    if started.labels:
        facts.append(f"labels {', '.join(sorted(started.labels))}")
    if row.recoveries:
        facts.append(f"continued {counted(row.recoveries, 'time')} after a crash")
    if row.parent is not None:
        facts.append(f"nested in {short_id(row.parent)}")
    if started.recalls is not None:
        facts.append(f"reuses run {short_id(started.recalls)}")
    question = started.query[-1].text if started.query else ""
    return ", ".join(facts) + (f"\n{question}" if question else "") + "\n"


def _drawings(screen: Screen, entries: Sequence[Entry]) -> list[RenderableType]:
    state = LiveState()
    for entry in entries:
        state.take(entry.event, entry.at)
    table = RunTable(screen.shown, None, screen.console().width).draw(state)
    return [table, *(note.text for note in run_notes(state, screen.shown))]


def _plain(entry: Entry) -> dict[str, Any]:
    head = {"number": entry.number, "recorded": entry.at, "hash": entry.hash}
    return {**head, **entry.event.to_json()}
