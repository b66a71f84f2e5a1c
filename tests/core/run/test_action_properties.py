"""Random plans with actions, failures, further plans, resumes and decisions keep the rules of actions."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from core.actors import boss
from hypothesis import given, strategies as st

from podium import Card, Conductor, FunctionWorker, Limits, Plan, Result, Retry, ScriptedWorker, Step
from podium.errors import ConfigError, PodiumError, ToolFailed, WorkerTimeout, WorkerUnavailable
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.types import Event, PlanReady
from podium.workers import FREE, StepInput

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
        subtask = f"{'do' if worker == 2 else 'say'} {draw(st.integers(0, 1))}"
        steps.append(Step(worker, subtask, access, enough))
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
    assert Counter(action.asked for action in result.actions) == world.done - repeated
    for current in result.rounds:
        steps = current.plan.steps if current.plan is not None else ()
        for outcome, step in zip(current.outcomes, steps, strict=False):
            if outcome.action == "done" and not outcome.reused:
                inputs = [current.outcomes[seen] for seen in step.access]
                good = [each for each in inputs if each.status == "ok" and each.problem is None]
                assert len(good) >= step.least
    if result.status == "ok":
        # A decision may have completed a round for which the run had made another one.
        rounds = [each for each in result.rounds if each.plan is not None and each.plan.steps]
        planned = [current.outcomes[: len(current.plan.steps)] for current in rounds]
        assert any(all(each.action in (None, "done") for each in outcomes) for outcomes in planned)
        assert all(action.end != "unknown" for action in result.actions)


@given(
    texts=st.lists(plans(), min_size=1, max_size=3),
    turns=st.lists(st.tuples(st.none() | plans(), st.sampled_from([None, True, False])), max_size=5),
    ends=st.lists(st.sampled_from(list(ENDS)), max_size=8),
    settings=st.tuples(st.sampled_from(["note", "skip", "replan"]), st.integers(1, 2), st.integers(1, 2)),
    heals=st.booleans(),
)
async def test_the_rules_of_actions(
    texts: list[Plan],
    turns: list[tuple[Plan | None, bool | None]],
    ends: list[str],
    settings: tuple[Any, int, int],
    *,
    heals: bool,
) -> None:
    """No action happens more often than one plan asks for it, from a gap, or after an unknown end."""
    on_failure, rounds, attempts = settings
    world, events, journal = World(ends), list[Event](), MemoryJournal()
    planner = boss(*[write_plan(plan, "rows") for plan in texts])
    retry, limits = Retry(attempts=attempts, first_wait=1e-6, break_after=None), Limits(rounds=rounds)
    options: dict[str, Any] = {"on_failure": on_failure, "retry": retry, "limits": limits}
    conductor = Conductor(planner, world.workers, journal=journal, **options)
    result = await conductor.run("What?", on_event=events.append)
    _check(world, result, events, Counter())
    world.heals = heals
    repeated = Counter[str]()
    for plan, done in turns:
        unknown = next((action for action in result.actions if action.end == "unknown"), None)
        if unknown is not None and done is not None:
            try:
                await conductor.decide(result.run_id, action=unknown.name, round=unknown.round, done=done)
            except ConfigError:  # another plan has an action in the step
                await conductor.decide(result.run_id, action=unknown.key, round=unknown.round, done=done)
            if not done:
                repeated[unknown.asked] += 1
            world.closed.discard(unknown.asked)
        try:
            result = await conductor.resume(result.run_id, plan=plan, on_event=events.append)
        except PodiumError:  # the changed plan may name a previous round that does not exist
            return
        _check(world, result, events, repeated)
