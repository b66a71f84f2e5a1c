"""Reads the runs of a Podium journal. Calls are named after workers, and have the costs in the journal."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

from podium.journal import Entry, Journal, RunRow
from podium.run_state import fold
from podium.run_state.round_state import CallState
from podium.types import (
    Outcome,
    PlannerEnded,
    PlannerStarted,
    PlanReady,
    RunStarted,
    StepEnded,
)
from podium_evals.audit.answers import Answer
from podium_evals.audit.span import Span
from podium_evals.audit.texts import digest, excerpt

_REFUSED = ("answer_refused",)


async def run_spans(journal: Journal) -> AsyncIterator[Span]:
    """Yield the spans of all runs of a journal; a nested run is part of the query of its outer run.

    Raises:
        JournalError: the journal cannot be read.
    """
    async with journal:
        rows = {row.run_id: row for row in await journal.runs(limit=None, nested=True)}
        parents = {run_id: row.parent for run_id, row in rows.items()}
        for run_id, row in rows.items():
            entries = await journal.read(run_id)
            for span in _run(row, _outermost(run_id, parents), entries):
                yield span


def _outermost(run_id: str, parents: dict[str, str | None]) -> str:
    seen = set[str]()
    while (parent := parents.get(run_id)) is not None and run_id not in seen:
        seen.add(run_id)
        run_id = parent
    return run_id


def _run(row: RunRow, trace: str, entries: Sequence[Entry]) -> Iterator[Span]:
    events = [entry.event for entry in entries]
    started = events[0]
    assert isinstance(started, RunStarted)
    outer = started.parent
    parent = "" if outer is None else f"{outer[0]}/{outer[1]}/{outer[2]}/{outer[3]}"
    asked = excerpt(started.query[-1].text) if started.query else ""
    yield Span(
        trace=trace,
        id=row.run_id,
        parent=parent,
        name="run",
        kind="agent",
        started=row.began,
        ended=row.ended,
        is_open=row.ended is None,
        question=asked,
    )
    whole = Span(trace=trace, id=row.run_id, parent=row.run_id, kind="call", question=asked)
    yield from _planning(whole, row, entries)
    yield from _steps(whole, row, entries)


def _planning(whole: Span, row: RunRow, entries: Sequence[Entry]) -> Iterator[Span]:
    begun: PlannerStarted | None = None
    for number, entry in enumerate(entries):
        event = entry.event
        if isinstance(event, PlannerStarted):
            begun = event
        elif isinstance(event, PlannerEnded) and event.proposal.asked:
            done = event.proposal
            failed = done.problem if done.problem is not None and not done.text else None
            yield replace(
                whole,
                id=f"{row.run_id}/{event.round}/planner/{number}",
                name="planner",
                step=f"planner ({done.role})",
                kind="call" if done.usage.total_tokens or done.cost != 0 or failed else "step",
                model=done.planner,
                started=row.began + (begun.at if begun else event.at - done.seconds),
                ended=row.began + event.at,
                usage=done.usage if done.usage.total_tokens else None,
                cost=done.cost,
                error=failed.code if failed else "",
                error_text=excerpt(failed.message, 200) if failed else "",
            )
            begun = None


def _steps(whole: Span, row: RunRow, entries: Sequence[Entry]) -> Iterator[Span]:
    events = [entry.event for entry in entries]
    ends = {(e.round, e.step, e.attempt): e.at for e in events if isinstance(e, StepEnded)}
    access = {
        (event.round, number): step.access_list
        for event in events
        if isinstance(event, PlanReady)
        for number, step in enumerate(event.plan.steps)
    }
    for called in fold(events).calls:
        start, bill = called.start, called.bill
        place = (start.round, start.step, start.attempt)
        failed = bill.problem
        is_model = bill.usage.total_tokens or bill.cost != 0
        yield replace(
            whole,
            id=f"{row.run_id}/{start.round}/{start.step}/{start.attempt}",
            name=bill.worker,
            step=bill.worker,
            kind="call" if is_model or failed else "tool",
            model=bill.worker,
            started=row.began + start.at,
            ended=None if (at := ends.get(place)) is None else row.began + at,
            is_open=failed is not None and failed.code == "unknown",
            usage=bill.usage if bill.usage.total_tokens else None,
            cost=bill.cost,
            error=failed.code if failed else "",
            error_text=excerpt(failed.message, 200) if failed else "",
            prompt=digest([start.subtask, access.get((start.round, start.step), ()), bill.worker]),
            **_answer(called)._asdict(),
        )


def _answer(called: CallState) -> Answer:
    outcome: Outcome | None = called.ended
    if outcome is None or called.bill.problem is not None:
        code = called.bill.problem.code if called.bill.problem else ""
        return Answer(is_refusal=code in _REFUSED)
    is_empty = not outcome.text.strip() and not outcome.tool_calls and outcome.status == "ok"
    return Answer(digest(outcome.text), outcome.finish_reason or "", is_empty)
