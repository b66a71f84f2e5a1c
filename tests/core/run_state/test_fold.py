"""The state of a run after every event: of random runs that fail, nest, act, wait, die and are resumed."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from core.actors import boss
from core.journal.recorded_before.cases import load
from core.run.test_action_properties import ENDS, World, plans as action_plans
from core.run.test_run_properties import Script, Stage, plans, scripts
from core.run_state.test_lost_calls import cut
from core.run_state.test_resume import recorded
from core.virtual_clock import on_virtual_clock
from hypothesis import given, strategies as st

from podium import Card, Conductor, FunctionWorker, Limits, Plan, Result, Retry
from podium.errors import PodiumError
from podium.execution import OnFailure
from podium.journal import Journal, MemoryJournal, SqlJournal
from podium.plan_text import write_plan
from podium.policy import Policy
from podium.replay import replay
from podium.run_state import RunState, fold
from podium.types import Event, PlannerStarted, StepEnded, StepStarted, WorkerRunEnded
from podium.types.outcome import total_cost
from podium.workers import FREE, Worker


def check_each(events: Sequence[Event], nested: Sequence[Sequence[Event]]) -> None:
    """See that after each event every call counts once, and that no output and no action is forgotten."""
    state, sent, again = RunState(), 0, 0
    begun, outputs, actions = set[tuple[int, int, int]](), set[str](), 0
    state.nested = [fold(each) for each in nested]
    for event in events:
        state.take(event)
        if isinstance(event, StepStarted):
            place = (event.round, event.step, event.attempt)
            again += event.reserved.calls * (place in begun)  # a changed plan begins the attempts again
            begun.add(place)
        if isinstance(event, StepStarted | PlannerStarted):
            sent += event.reserved.calls
        if isinstance(event, WorkerRunEnded):
            sent += event.calls
        assert sent - again <= sum(spend.calls for spend in state.spent()) <= sent
        result = state.result()
        cost = total_cost([*(call.bill.cost for call in state.calls), *(p.cost for p in result.proposals)])
        if cost is not None and not again:
            assert result.cost == pytest.approx(cost)
        if isinstance(event, StepEnded) and event.outcome.status == "ok":
            outputs.add(event.outcome.text)
        assert outputs <= {outcome.text for outcome in result.outcomes}
        executions = state.executions()
        assert len(executions) >= actions
        actions = len(executions)


async def check(journal: Journal, *results: Result) -> None:
    """Check every run of a journal after each event; these are the results that were returned."""
    rows = await journal.runs(nested=True, limit=None)
    runs = {row.run_id: await recorded(journal, row.run_id) for row in rows}
    for run_id, events in runs.items():
        check_each(events, _nested(run_id, runs))
    for result in results:
        read = fold(runs[result.run_id], _nested(result.run_id, runs)).result()
        own = [[action for action in each.actions if action.run_id == each.run_id] for each in (read, result)]
        assert own[0] == own[1]
        if result.status != "waiting":  # the read result tells the steps that have not run
            assert replace(read, actions=()) == replace(result, actions=())


def _nested(run_id: str, runs: dict[str, list[Event]]) -> list[list[Event]]:
    found = []
    for other, events in runs.items():
        first = events[0]
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


async def live(made: Callable[[MemoryJournal], Conductor], lives: Sequence[Any], data: st.DataObject) -> None:
    """Run, then resume in several lives, some with another plan; decide what waits; replay in the end."""
    journal, results = MemoryJournal(), list[Result]()
    with suppress(PodiumError):
        results.append(await made(journal).run("What?", run_id="R"))
    await check(journal, *results)
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
            results = [await made(journal).resume("R", plan=plan)]
            await check(journal, *results)
    with suppress(PodiumError):
        await replay(made(journal), await recorded(journal, "R"), run_id="replayed")
        await check(journal)


@pytest.mark.long
@given(scripts(), st.lists(st.none() | plans(1), max_size=3), st.data())
def test_any_run(script: Script, lives: list[Plan | None], data: st.DataObject) -> None:
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
    async with SqlJournal(load(tmp_path / "journal.db")) as journal:
        await check(journal)
