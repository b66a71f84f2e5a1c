"""`podium show`: show a recorded run, or the differences of two."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from podium import replay
from podium.cli.answer import (
    answer_command,
    charge_line,
    next_command,
    output_of,
    problem_line,
    result_json,
    status_line,
    step_outputs,
)
from podium.cli.arguments import (
    AsJson,
    ConfigPath,
    JournalPlace,
    Run,
    exclude,
    find_run,
    local_time,
    look,
    short_id,
)
from podium.cli.drawing import draw_run, plain_table
from podium.cli.live import LiveState
from podium.cli.screen import Screen, counted, money, reporting
from podium.config.add_ons import load_part
from podium.config.load import find_journal
from podium.errors import ConfigError
from podium.journal import Entry, RunRow, SqlJournal
from podium.run.replies import question_lines
from podium.run_state import fold
from podium.types.events import ApprovalAsked, RunStarted
from podium.types.forecast import compare, explain_forecast
from podium.types.outcome import ACTION_ENDS, Outcome
from podium.types.result import Result

_WORDS = 60
"""Longest excerpt of an output in a list of executions, in characters."""
_ACTIONS = 10
"""The number of actions with an unknown end that are listed."""
_EXCERPT = 200
"""Longest excerpt of a text that differs, in characters."""


def show(  # noqa: PLR0913 - one parameter for each argument and option
    run: Run,
    other: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Show only how this run differs from the first.")
    ] = None,
    *,
    events: Annotated[
        bool, typer.Option("--events", help="Write all recorded events as JSON lines.")
    ] = False,
    outputs: Annotated[bool, typer.Option("--outputs", help="Write the output of each step too.")] = False,
    step: Annotated[
        str | None,
        typer.Option(metavar="STEP", help="Show one step: its number, or an item or turn, as in '2[17]'."),
    ] = None,
    in_browser: Annotated[
        bool, typer.Option("--open", help="Show the run in a browser, until Ctrl-C. No model is called.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="With --open: write the address, and open no browser.")
    ] = False,
    config: ConfigPath = None,
    journal: JournalPlace = None,
    as_json: AsJson = False,
) -> None:
    """Show a recorded run, or how two runs differ.

    A run has its plans, steps, calls, costs and the reasons for decisions. Two runs may differ in plans,
    outputs and costs.
    """
    with reporting() as screen:
        forms = {"--events": events, "--outputs": outputs, "--step": step}
        if step is not None:
            exclude("--step", {"--events": events, "--outputs": outputs, "--json": as_json})
        if no_browser and not in_browser:
            exclude("a run without --open", {"--no-browser": True})
        record = find_journal(config, journal)
        if in_browser:
            exclude("--open", forms | {"another run": other, "--json": as_json})
            load_part("open")(screen, config, record, run, browser=not no_browser)
        elif other is not None:
            exclude("another run", forms)
            _show_differences(screen, record, run, other, as_json=as_json)
        elif step is not None:
            _show_step(screen, record, run, step)
        else:
            then = partial(_then, config=config, place=journal)
            _show(screen, record, run, then, as_json=as_json, events=events, outputs=outputs)


def _show(  # noqa: PLR0913 - the options of the command
    screen: Screen,
    journal: SqlJournal,
    typed: str,
    then: Callable[[RunRow, Result, Sequence[ApprovalAsked]], list[str]],
    *,
    as_json: bool,
    events: bool,
    outputs: bool,
) -> None:
    """Show a run: its question, plans, steps, calls, cost and answer, and the questions of its steps."""
    row, entries, result = look(journal, lambda: _read(journal, typed))
    if events:
        for entry in entries:
            head = {"number": entry.number, "recorded": entry.at, "hash": entry.hash}
            screen.result_json({**head, **entry.event.to_json()}, indent=None)
        return
    own = [entry for entry in entries if entry.run_id == row.run_id]
    started = own[0].event
    assert isinstance(started, RunStarted)
    if as_json:
        facts: dict[str, Any] = {"state": row.state, "began": row.began, "ended": row.ended}
        facts |= {"parent": row.parent, "recoveries": row.recoveries, "labels": sorted(started.labels)}
        facts |= {"recalls": started.recalls, "user": started.user, "hash": own[-1].hash}
        query = [message.to_wire() for message in started.query]
        screen.result_json({**result_json(result), **facts, "query": query})
        return
    screen.result(_heading(row, started))
    state = LiveState()
    for entry in entries:
        state.take(entry.event, entry.at)
    draw_run(screen, state)
    for output in step_outputs(result) if outputs else ():
        screen.result(f"\n{output}")
    if result.answer:
        screen.result(f"\n{result.answer}")
    screen.result(f"\n{status_line(result)}")
    for line in filter(None, [charge_line(result), problem_line(result)]):
        screen.result(line)
    _show_unknown(screen, result)
    for line in then(row, result, fold(entry.event for entry in own).waiting):
        screen.result(line)
    if result.forecast is not None and result.rounds:
        outcomes = result.rounds[0].outcomes
        began = any(outcome.started is not None for outcome in outcomes)
        is_known = began and result.status != "waiting"
        screen.result(compare(result.forecast, outcomes) if is_known else explain_forecast(result.forecast))


def _then(
    row: RunRow, result: Result, waiting: Sequence[ApprovalAsked], config: Path | None, place: str | None
) -> list[str]:
    """Return the questions that wait with the commands that answer them, or the command that continues."""
    lines = list[str]()
    for asked in waiting:
        if asked.question is not None:
            lines += ["", *question_lines(asked), f"answer it with `{answer_command(asked, config, place)}`"]
    if lines or place is not None or row.state == "running" or row.parent is not None:
        return lines
    told = next_command(result, waiting, config)
    return [f"next: {told}"] if told else []


def _show_unknown(screen: Screen, result: Result) -> None:
    """Show the actions of which nobody knows whether they were carried out."""
    unknown = [action for action in result.actions if action.end == "unknown"]
    for action in unknown[:_ACTIONS]:
        screen.result(f"step {action.name}: {action}")
    if len(unknown) > _ACTIONS:
        screen.result(f"and {len(unknown) - _ACTIONS} more: see them with --step STEP")


def _show_step(screen: Screen, journal: SqlJournal, typed: str, name: str) -> None:
    """Show the output of a step of the latest round that has it, and one line for each execution inside."""
    _, _, result = look(journal, lambda: _read(journal, typed))
    own, inside = None, list[Outcome]()
    for current in reversed(result.rounds):
        outcomes = [each for each in current.outcomes if not each.is_superseded]
        own = next((each for each in outcomes if each.name == name), None)
        inside = [each for each in outcomes if _is_inside(each.path, name)]
        if own is not None or inside:
            break
    else:
        raise ConfigError(f"run {result.run_id} has no outcome of step {name}: see `podium show {typed}`")
    screen.result(f"--- step {name} ---" if own is None else output_of(own, result))
    actions = {(each.run_id, each.round, each.step): each for each in result.actions}
    if own is not None and own.action and (action := actions.get((result.run_id, own.round, own.step))):
        screen.result(str(action))
    if own is not None and own.problem is not None:
        screen.result(f"{own.problem.code}: {own.problem.message}")
    if not inside:
        return
    table = plain_table("execution", "worker", "status", Column("cost", justify="right"), "output")
    for each in inside:
        told = each.text if each.problem is None else f"{each.problem.code}: {each.problem.message}"
        if each.action and (action := actions.get((result.run_id, each.round, each.step))):
            told = f"{ACTION_ENDS[action.end]}: {action.asked}"
        cost = money(each.cost, at_most=each.usage.estimated)
        cells = (each.name, each.worker, each.status, cost, _first_words(screen, told))
        table.add_row(*map(Text, cells))
    screen.draw(table)


def _is_inside(path: str, name: str) -> bool:
    return path.startswith(name) and path[len(name) : len(name) + 1] in ("[", "(", ".")


def _first_words(screen: Screen, text: str) -> str:
    line = " ".join(screen.shown(text).split())
    return line if len(line) <= _WORDS else line[: _WORDS - 1] + "…"


async def _read(journal: SqlJournal, typed: str) -> tuple[RunRow, Sequence[Entry], Result]:
    """Return a run, its entries with those of the runs nested in it, oldest first, and its result."""
    row = await find_run(journal, typed)
    entries = [list(await journal.read(run_id)) for run_id in await _family(journal, row.run_id)]
    own, *nested = [[entry.event for entry in each] for each in entries]
    return row, sorted(chain(*entries), key=lambda entry: entry.at), fold(own, nested).result()


async def _family(journal: SqlJournal, run_id: str) -> list[str]:
    """Return the ids of a run and of all runs nested in it."""
    found = [run_id]
    for nested in await journal.runs(limit=None, nested=True, parent=run_id):
        found += await _family(journal, nested.run_id)
    return found


def _heading(row: RunRow, started: RunStarted) -> str:
    facts = [f"run {row.run_id}", row.state, local_time(row.began)]
    if started.user:
        facts.append(f"user {started.user:.200}")
    if started.labels:
        facts.append(f"labels {', '.join(sorted(started.labels))}")
    if row.recoveries:
        facts.append(f"continued {counted(row.recoveries, 'time')} after a crash")
    if row.parent is not None:
        facts.append(f"nested in {short_id(row.parent)}")
    if started.recalls is not None:
        facts.append(f"reuses run {short_id(started.recalls)}")
    return "\n".join(filter(None, (", ".join(facts), started.question))) + "\n"


def _show_differences(screen: Screen, journal: SqlJournal, first: str, second: str, *, as_json: bool) -> None:
    async def read_both() -> tuple[Result, Result]:
        return (await _read(journal, first))[2], (await _read(journal, second))[2]

    results = look(journal, read_both)
    differences = replay.diff(*results)
    if as_json:
        found = [asdict(difference) for difference in differences]
        screen.result_json({"runs": [result.run_id for result in results], "differences": found})
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
    sides = (Column(screen.shown(short_id(result.run_id)), ratio=1) for result in results)
    heads = (Column(head, no_wrap=True) for head in ("where", "what"))
    table = plain_table(*heads, *sides, expand=True)
    several = any(len(result.rounds) > 1 for result in results)
    for difference in differences:
        step = (f"round {difference.round}, " if several else "") + f"step {difference.step}"
        values = (difference.before, difference.after)
        texts = (Text(_told(screen, difference.what, value)) for value in values)
        table.add_row("run" if difference.step is None else step, difference.what, *texts)
    return table


def _told(screen: Screen, what: str, value: object) -> str:
    if what == "cost" and (value is None or isinstance(value, float | int)):
        return money(value)
    if value is None:
        return "-"
    if isinstance(value, float | int):
        return f"{value:,}"
    text = " ".join(screen.shown(value if isinstance(value, str) else json.dumps(value)).split())
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"
