"""The state of a run after every event: of random runs that fail, nest, act, wait, die and are resumed."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from core.actors import boss
from core.execution.test_scheduler_properties import on_virtual_clock
from core.journal.recorded_before.cases import load
from core.run.test_action_properties import ENDS, World, plans as action_plans
from core.run.test_run_properties import Script, Stage, plans, scripts
from core.run_state.test_bills import cut
from core.run_state.test_resume import recorded
from hypothesis import given, strategies as st

from podium import Card, Conductor, FunctionWorker, Limits, Plan, Retry
from podium.errors import PodiumError
from podium.execution import OnFailure
from podium.journal import Journal, MemoryJournal, SqlJournal
from podium.plan_text import write_plan
from podium.policy import Policy
from podium.replay import replay
from podium.run_state.action_log import Execution
from podium.run_state.fold import fold
from podium.run_state.recorded_actions import executions_of
from podium.run_state.reuse import (
    PaidResults,
    paid_results_from,
    paid_results_of,
    unbilled,
    unbilled_from,
)
from podium.run_state.state import (
    calls_of,
    has_ended,
    is_undecided,
    limits_of,
    result_of,
    rounds_of,
    spent_by,
    steps_of,
    waiting_for,
)
from podium.types import Event, Result, Round, RunStarted
from podium.workers import FREE, Worker


def _round(current: Round) -> Round:
    """Return a round, with the calls and the outcomes beside the plan in one order."""
    size = 0 if current.plan is None else len(current.plan.steps)
    outcomes = [replace(o, calls=tuple(sorted(o.calls, key=repr))) for o in current.outcomes]
    return replace(current, outcomes=(*outcomes[:size], *sorted(outcomes[size:], key=repr)))


def _result(result: Result) -> Result:
    return replace(result, rounds=tuple(map(_round, result.rounds)))


def _act(each: Execution) -> object:
    # Of runs that a worker's code started, the fold does not mix up the steps of two plans.
    place = (each.path, each.levels) if each.levels[-1].plan else ()
    return each.action, place, each.outcome, each.is_nested_run, each.counts


def _paid(paid: PaidResults) -> object:
    facts: dict[str, object] = {name: getattr(paid, name) for name in PaidResults.__slots__}
    for name in ("lost", "unseen"):
        facts[name] = {place: sorted(map(repr, calls)) for place, calls in getattr(paid, name).items()}
    return facts | {"actions": [_act(each) for each in paid.actions]}


def _tried(do: Callable[..., PaidResults], *args: Any, **options: Any) -> object:
    try:
        return _paid(do(*args, **options))
    except PodiumError as error:
        return str(error)


def compare(events: Sequence[Event], nested: Sequence[Sequence[Event]] | None) -> None:
    """See that the fold says what the functions over all events say."""
    state = fold(events, nested)
    assert [*map(_round, rounds_of(events, nested))] == [*map(_round, state.rounds_so_far())]
    assert sorted(map(repr, spent_by(events))) == sorted(map(repr, state.spent()))
    assert _result(result_of(events, nested)) == _result(state.result())
    assert [*map(_act, executions_of((events, *(nested or ()))))] == [*map(_act, state.executions())]
    assert limits_of(events) == state.limits
    assert has_ended(events) == state.has_ended
    assert is_undecided(events) == state.is_undecided
    assert waiting_for(events) == state.waiting
    assert steps_of(events) == state.steps
    calls = [repr((c.round, c.step, c.reserved, c.bill, c.ended)) for c in calls_of(events)]
    starts = [(c.start, c) for c in state.calls]
    assert sorted(calls) == sorted(repr((s.round, s.step, s.reserved, c.bill, c.ended)) for s, c in starts)
    pool = state.workers
    for flag in (True, False):
        one = _tried(paid_results_of, events, pool, again=flag, nested=nested)
        assert one == _tried(paid_results_from, state, pool, again=flag)
        whole = [*chain(events, *(nested or ()))]
        one = _tried(unbilled, whole, pool, moved=flag)
        assert one == _tried(unbilled_from, whole, pool, moved=flag)


async def check(journal: Journal, data: st.DataObject | None = None) -> None:
    """Compare after every event of every run of a journal, or after some of them."""
    rows = await journal.runs(nested=True, limit=None)
    runs = {row.run_id: await recorded(journal, row.run_id) for row in rows}
    for run_id, events in runs.items():
        nested = _nested(run_id, runs)
        lengths = set(range(1, len(events) + 1))
        if data is not None:
            lengths = {len(events), *data.draw(st.sets(st.sampled_from(sorted(lengths)), max_size=8))}
        for length in lengths:
            compare(events[:length], None)
            if nested:
                compare(events[:length], nested)
            if nested and data is not None:
                compare(events[:length], [e[: data.draw(st.integers(1, len(e)))] for e in nested])


def _nested(run_id: str, runs: dict[str, list[Event]]) -> list[list[Event]]:
    found = []
    for other, events in runs.items():
        first = events[0]
        assert isinstance(first, RunStarted)
        if first.parent is not None and first.parent[0] == run_id:
            found += [events, *_nested(other, runs)]
    return found


async def killed(journal: MemoryJournal, data: st.DataObject) -> MemoryJournal:
    """Return the journal as a process left it that died at some time."""
    lengths = dict[str, int | None]()
    for row in sorted(await journal.runs(nested=True, limit=None), key=lambda row: row.parent is not None):
        if row.parent is None or row.parent in lengths:
            lengths[row.run_id] = data.draw(st.integers(1, len(await recorded(journal, row.run_id))))
    return await cut(journal, lengths)


async def live(
    made: Callable[[MemoryJournal], Conductor], lives: Sequence[Plan | None], data: st.DataObject
) -> None:
    """Run, then resume in several lives, some with another plan; decide what waits; replay in the end."""
    journal = MemoryJournal()
    with suppress(PodiumError):
        await made(journal).run("What?", run_id="R")
    await check(journal, data)
    for plan in lives:
        if data.draw(st.booleans(), label="is killed"):
            journal = await killed(journal, data)
        state = fold(await recorded(journal, "R"))
        unknown = [each.action.step for each in state.executions() if each.action.end == "unknown"]
        yes = data.draw(st.booleans(), label="yes")
        with suppress(PodiumError):
            if state.waiting:
                await made(journal).decide("R", approved=yes)
            elif unknown:
                await made(journal).decide("R", action=unknown[0], done=yes)
            await made(journal).resume("R", plan=plan)
        await check(journal, data)
    with suppress(PodiumError):
        await replay(made(journal), await recorded(journal, "R"), run_id="replayed")
    await check(journal, data)


@pytest.mark.long
@given(scripts(), st.lists(st.none() | plans(1), max_size=3), st.data())
def test_any_run(script: Script, lives: list[Plan | None], data: st.DataObject) -> None:
    """Failures, retries, re-plans and nested runs; the pool of a later life has another order."""

    def made(journal: MemoryJournal) -> Conductor:
        drawn = Stage(script).conductor()
        workers: list[Worker] = [*drawn.pool.workers]
        if data.draw(st.booleans(), label="another order"):
            workers.reverse()
        retry = Retry(attempts=script.attempts, first_wait=0.1)
        options: dict[str, Any] = {"limits": script.limits, "on_failure": script.on_failure, "retry": retry}
        return Conductor(drawn.planner, workers, journal=journal, **options)

    on_virtual_clock(lambda: live(made, lives, data))


@dataclass(frozen=True)
class Scene:
    """A run that acts."""

    texts: tuple[Plan, ...]
    ends: tuple[str, ...]
    on_failure: OnFailure
    ask: str
    """What waits for approval."""
    nests: str
    """Who acts: a worker, a conductor, or a conductor that the code of a worker runs."""


scenes = st.builds(
    Scene,
    texts=st.tuples(action_plans(), action_plans(), action_plans()),
    ends=st.lists(st.sampled_from(list(ENDS)), max_size=6).map(tuple),
    on_failure=st.sampled_from(["note", "skip", "replan"]),
    ask=st.sampled_from(["", "plans", "actions"]),
    nests=st.sampled_from(["", "conductor", "code"]),
)


@pytest.mark.long
@given(scenes, st.lists(st.none() | action_plans(), max_size=3), st.data())
def test_any_run_that_acts(scene: Scene, lives: list[Plan | None], data: st.DataObject) -> None:
    """Actions with any end, which may wait for an approval and be of a nested run."""
    world, once = World(scene.ends), Retry(attempts=1, break_after=None)
    act = Card(name="act", price=FREE)

    def made(journal: MemoryJournal) -> Conductor:
        workers: list[Worker] = [*world.workers]
        texts = [write_plan(plan, "rows") for plan in scene.texts]
        options: dict[str, Any] = {"on_failure": scene.on_failure, "retry": once}
        if scene.nests:
            inner = Conductor(boss(*texts), workers, card=act, **options)

            async def code(step: object) -> str:
                return (await inner.run("In?")).answer

            outer: Worker = inner if scene.nests == "conductor" else FunctionWorker(code, card=act, acts=True)
            workers = [*workers[:2], outer]
        if scene.ask:
            options["policy"] = Policy(approve="later", ask=scene.ask)  # type: ignore[arg-type]  # drawn from its values
        return Conductor(boss(*texts), workers, journal=journal, limits=Limits(rounds=2), **options)

    on_virtual_clock(lambda: live(made, lives, data))


@pytest.mark.anyio
async def test_old_runs(tmp_path: Path) -> None:
    """Runs that an earlier version recorded."""
    async with SqlJournal(load(tmp_path / "journal.db")) as journal:
        await check(journal)
