"""Random plans with actions, failures, further plans, resumes and decisions keep the rules of actions."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from core.actors import boss
from hypothesis import given, strategies as st

from podium import Card, Conductor, FunctionWorker, Limits, Plan, Retry, Step
from podium.errors import PodiumError, ToolFailed, WorkerTimeout, WorkerUnavailable
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.types import Event, PlanReady, Result
from podium.workers import FREE, ScriptedWorker, StepInput

pytestmark = pytest.mark.anyio
ENDS = {
    "done": None,
    "failed": ToolFailed("closed", maybe_paid=True),
    "unknown": WorkerTimeout("late", maybe_paid=True),
    "not_done": WorkerUnavailable("refused"),
}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Return a plan of models (0), models that fail (1) and actions (2)."""
    steps = []
    for index in range(draw(st.integers(1, 5))):
        worker = draw(st.sampled_from([0, 0, 1, 2, 2]))
        access = tuple(draw(st.sets(st.integers(0, index - 1)))) if index else ()
        enough = draw(st.sampled_from([None, None, 1])) if access else None
        steps.append(
            Step(worker, f"{'do' if worker == 2 else 'say'} {draw(st.integers(0, 1))}", access, enough)
        )
    return Plan((*steps, Step(0, "answer", (len(steps) - 1,))))


class World:
    """The workers, and what they did."""

    def __init__(self, ends: Sequence[str]) -> None:
        self.done = Counter[str]()
        """How often each action reached the worker."""
        self.closed = set[str]()
        """Actions with an unknown end."""
        self.again = list[str]()
        """Actions that began after their end had become unknown."""
        self.heals = False
        self._ends = list(ends)
        act = FunctionWorker(self._act, card=Card(name="act", price=FREE), acts=True)
        self.workers = [ScriptedWorker("model", "text"), ScriptedWorker("flaky", self._flaky), act]

    def _flaky(self, request: object) -> str | Exception:
        return "text" if self.heals else WorkerUnavailable("down")

    async def _act(self, step: StepInput) -> str:
        end = self._ends.pop(0) if self._ends else "done"
        if end != "not_done":
            self.done[step.subtask] += 1
            if step.subtask in self.closed:
                self.again.append(step.subtask)
        if (error := ENDS[end]) is not None:
            raise error
        return "acted"


def _asked(events: Sequence[Event]) -> Counter[str]:
    """Return how often one plan asks for each action, at most."""
    most = Counter[str]()
    for event in events:
        if isinstance(event, PlanReady):
            most |= Counter(event.plan.steps[index].subtask for index in event.actions)
    return most


def _check(world: World, result: Result, events: Sequence[Event], repeated: Counter[str]) -> None:
    most = _asked(events)
    assert all(count <= most[name] + repeated[name] for name, count in world.done.items())
    assert world.again == []
    world.closed = {action.asked for action in result.actions if action.end == "unknown"}
    counts = Counter(action.asked for action in result.actions)
    assert counts == world.done - repeated
    for current in result.rounds:
        steps = current.plan.steps if current.plan is not None else ()
        for outcome, step in zip(current.outcomes, steps, strict=False):
            if outcome.action == "done" and not outcome.reused:
                inputs = [current.outcomes[seen] for seen in step.access]
                good = [each for each in inputs if each.status == "ok" and each.problem is None]
                assert len(good) >= step.least
    if result.status == "ok":
        last = next(r for r in reversed(result.rounds) if r.plan is not None and r.plan.steps)
        steps_of = last.outcomes[: len(last.plan.steps)]  # after them, those of a plan that was changed
        actions = [each for each in steps_of if each.action is not None]
        assert all(each.action == "done" and each.status == "ok" for each in actions)
        assert all(action.end != "unknown" for action in result.actions)


@given(
    texts=st.lists(plans(), min_size=1, max_size=3),
    changed=st.none() | plans(),
    ends=st.lists(st.sampled_from(list(ENDS)), max_size=6),
    heals=st.booleans(),
    done=st.booleans(),
    on_failure=st.sampled_from(["note", "skip", "replan"]),
    rounds=st.integers(1, 2),
)
async def test_the_rules_of_actions(
    texts: list[Plan], changed: Plan | None, ends: list[str], on_failure: Any, rounds: int, **chosen: bool
) -> None:
    """No action happens more often than one plan asks for it, from a gap, or after an unknown end."""
    world, events, journal = World(ends), list[Event](), MemoryJournal()
    planner = boss(*[write_plan(plan, "rows") for plan in texts])
    conductor = Conductor(
        planner,
        world.workers,
        journal=journal,
        on_failure=on_failure,
        retry=Retry(attempts=1, break_after=None),
        limits=Limits(rounds=rounds),
    )
    result = await conductor.run("What?", on_event=events.append)
    _check(world, result, events, Counter())
    world.heals = chosen["heals"]
    repeated = Counter[str]()
    for plan in (None, changed):
        try:
            result = await conductor.resume(result.run_id, plan=plan, on_event=events.append)
        except PodiumError:  # the changed plan may name a previous round that does not exist
            return
        _check(world, result, events, repeated)
    unknown = next((action for action in result.actions if action.end == "unknown"), None)
    if unknown is not None:
        await conductor.decide(result.run_id, action=unknown.step, done=chosen["done"])
        if not chosen["done"]:
            repeated[unknown.asked] += 1
        world.closed.discard(unknown.asked)
        result = await conductor.resume(result.run_id, on_event=events.append)
        assert world.done[unknown.asked] <= _asked(events)[unknown.asked] + repeated[unknown.asked]
