"""Journals: what an audit finds in runs that were cut off, resumed and changed is what their results say."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from core.run_state.test_lost_calls import Scene, conductor, cut, nested, outer, paid, runs_in, scenes, sent
from core.run_state.test_resume import prefix, recorded
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium import Conductor, Plan, Step
from podium.errors import PlannerError
from podium.journal import MemoryJournal, SqlJournal
from podium.planners import FixedPlanner
from podium.run_state import fold
from podium.types import Event, StepEnded
from podium_evals.audit import Report, audit


def check(report: Report, events: Sequence[Event]) -> None:
    """Compare a report on a journal of one run, whose workers are all models, with the record of the run."""
    result, total = fold(events).result(), report.total
    assert (report.queries, total.calls, report.doubts["duplicates"]) == (1, sent(events), 0)
    assert total.cost == pytest.approx(result.cost)
    amounts = {each.name: each.amounts for each in report.models}
    pairs = [(total, result.usage), *((amounts[name], used) for name, used in result.usage_by_worker.items())]
    for found, usage in pairs:
        assert (found.input_tokens, found.output_tokens) == (usage.input_tokens, usage.output_tokens)
    assert report.latency.p50 == pytest.approx(result.seconds, abs=1e-5)


def test_calls_of_a_plan_that_was_changed(tmp_path: Path) -> None:
    """They count beside the calls of the new plan, each with its own worker and without the idle time."""
    journal = SqlJournal(tmp_path / "runs.db")
    before, after = (Plan((Step(worker, "Think."), Step(worker, "Answer.", (0,)))) for worker in (0, 1))
    made = Conductor(FixedPlanner(before), [paid("small"), paid("large")], journal=journal)

    async def body() -> list[Event]:
        await made.run("How many?", run_id="x")
        await made.resume("x", plan=after)
        return await recorded(journal, "x")

    events = anyio.run(body)
    report = audit([tmp_path / "runs.db"])
    assert {each.name: each.amounts.calls for each in report.models} == {"small": 2, "large": 2}
    assert report.findings == ()
    check(report, events)


@pytest.mark.long
@given(scenes, st.data())
def test_random_runs_that_were_cut_off_and_changed(scene: Scene, data: st.DataObject) -> None:
    """Cut off twice, with another plan from then on."""
    left = list[MemoryJournal]()

    async def body() -> list[list[Event]]:
        journal = MemoryJournal()
        with suppress(PlannerError):
            await conductor(scene, journal).run("What?", run_id="R")
        events = await recorded(journal, "R")
        for life in range(2):
            events = events[: data.draw(st.integers(1, len(events)), label=f"length {life}")]
            left.append(await prefix(events, "R"))
            left.append(journal := await prefix(events, "R"))
            with suppress(PlannerError):
                await conductor(scene, journal).resume("R", plan=scene.edited)
            events = await recorded(journal, "R")
        return [await recorded(journal, "R") for journal in left]

    for journal, events in zip(left, anyio.run(body, backend_options=OPTIONS), strict=True):
        if sent(events):
            check(audit([journal]), events)


@pytest.mark.parametrize("length", [4, 7])
def test_nested_runs_that_were_cut_off_and_changed(length: int) -> None:
    """All calls of a conductor in a step are one nested run, the calls of which count."""

    def made(journal: MemoryJournal) -> Conductor:
        return outer(nested([paid("x"), paid("y")]), paid("tail"), journal)

    async def body() -> tuple[MemoryJournal, list[Event]]:
        journal = MemoryJournal()
        await made(journal).run("What?", run_id="R")
        end = next(at for at, e in enumerate(await recorded(journal, "R")) if isinstance(e, StepEnded))
        left = await cut(journal, {"R": end, await runs_in(journal): length})
        await made(left).resume("R")
        await made(left).resume("R", plan=Plan((Step(1, "do it"), Step(0, "end", (0,)))))
        return left, await recorded(left, "R")

    journal, events = anyio.run(body)
    report, result = audit([journal]), fold(events).result()
    assert {each.name: each.amounts.calls for each in report.models} == {"x": 2, "y": 2, "tail": 2}
    assert report.total.input_tokens == result.usage.input_tokens
    assert report.total.cost == pytest.approx(result.cost)
    assert report.latency.p50 == pytest.approx(result.seconds, abs=1e-5)
