"""The record of a run while it runs, on a full disk, and after a plan of the fallback planner."""

import anyio
import pytest
from core.actors import problem_of
from core.run_state.test_lost_calls import PRICE, paid, planned
from core.run_state.test_resume import prefix, recorded

from podium import Card, Conductor, Plan, Price, ScriptedWorker, Step
from podium.errors import JournalError
from podium.journal import Log, MemoryJournal
from podium.planners import ChatPlanner, FixedPlanner
from podium.policy import Policy
from podium.run_state import fold
from podium.types import Event, PlannerStarted, Result, RunEnded, RunStarted, StepEnded
from podium.usage import Usage
from podium.workers import FREE
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio


class _BreakingLog(Log):
    """Records nothing from an event of a type on; at the end of a step, another process has the run."""

    def __init__(self, log: Log, last: type[Event]) -> None:
        self.run_id, self._log, self._last = log.run_id, log, last
        self._broken = False

    def append(self, event: Event) -> None:
        self._broken = self._broken or isinstance(event, self._last)
        if not self._broken:
            self._log.append(event)
        elif isinstance(event, StepEnded):
            assert self.on_lost is not None
            self.on_lost()

    async def flush(self) -> None:
        if self._broken:
            raise JournalError("no space left")

    async def aclose(self) -> None:
        await self._log.aclose()


class _Breaking(MemoryJournal):
    def __init__(self, last: type[Event]) -> None:
        super().__init__()
        self._last = last

    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        return _BreakingLog(await super().begin(started, minted=minted), self._last)


async def test_a_result_that_cannot_be_recorded_is_in_the_error() -> None:
    conductor = Conductor(planned(Plan((Step(0, "go"),))), [paid("a")], journal=_Breaking(RunEnded))
    with pytest.raises(JournalError, match="no space left") as caught:
        await conductor.run("What?")
    assert isinstance(caught.value.result, Result)
    assert (caught.value.result.answer, caught.value.result.status) == ("a said", "ok")


@pytest.mark.parametrize("price", [PRICE, FREE])
async def test_a_planner_that_was_broken_off_is_in_the_result(price: Price) -> None:
    journal = MemoryJournal()
    planner = ScriptedWorker(Card(name="boss", price=price), '{"worker": 0, "subtask": "go", "access": []}')
    conductor = Conductor(ChatPlanner(planner), [paid("a")], journal=journal)
    await conductor.run("What?", run_id="whole")
    events = await recorded(journal, "whole")
    at, start = next((at, event) for at, event in enumerate(events) if isinstance(event, PlannerStarted))
    left = await prefix(events[: at + 1], "R")
    assert fold([entry.event for entry in await left.read("R")]).result().cost == start.reserved.cost
    result = await Conductor(ChatPlanner(planner), [paid("a")], journal=left).resume("R")
    lost, good = result.proposals
    assert (lost.text, problem_of(lost).code, lost.cost) == ("", "unknown", start.reserved.cost)
    assert lost.usage == Usage(start.reserved.input_tokens, start.reserved.output_tokens, estimated=True)
    assert lost.maybe_paid == result.maybe_paid == (price != FREE)
    assert (good.problem, result.status) == (None, "ok")


async def test_calls_of_a_run_that_is_lost_are_stopped() -> None:
    slow = ScriptedWorker("slow", "late", latency=30)
    plan = planned(Plan((Step(0, "quick"), Step(1, "long"), Step(0, "end", (0, 1)))))
    conductor = Conductor(plan, [paid("a", latency=0.02), slow], journal=_Breaking(StepEnded))
    with anyio.fail_after(5), pytest.raises(JournalError):
        await conductor.run("What?")
    assert len(slow.requests) == 1


FALLBACK = '{"worker": 0, "subtask": "do it", "access": []}'
BETTER = '{"worker": 1, "subtask": "do it better", "access": [0]}'


class Team:
    """A conductor in a journal, with its models."""

    def __init__(self, journal: MemoryJournal, plan: Reply) -> None:
        self.planner = ScriptedWorker("planner", plan)
        self.workers = [ScriptedWorker("a", "a said"), ScriptedWorker("b", "b said")]
        planner, fallback = ChatPlanner(self.planner), FixedPlanner(FALLBACK)
        self.conductor = Conductor(planner, self.workers, fallback_planner=fallback, journal=journal)

    @property
    def calls(self) -> list[int]:
        return [len(each.requests) for each in (self.planner, *self.workers)]


async def resumed(plan: Reply) -> tuple[Result, Result, Team, MemoryJournal]:
    """Return the result of a run with a plan of the fallback planner, its result after a resume, and both."""
    journal = MemoryJournal()
    first = await Team(journal, "none").conductor.run("What?", run_id="x")
    assert (first.status, first.answer) == ("partial", "a said")
    team = Team(journal, plan)
    return first, await team.conductor.resume("x"), team, journal


async def test_a_planner_that_works_again_writes_the_plan() -> None:
    first, result, team, journal = await resumed(f"{FALLBACK}\n{BETTER}")
    assert (result.status, result.answer, result.problem) == ("ok", "b said", None)
    assert team.calls == [1, 0, 1]
    assert not result.planner.is_fallback
    assert result.usage.total_tokens > first.usage.total_tokens
    assert await team.conductor.resume("x") == result
    assert team.calls == [1, 0, 1]
    assert (await journal.runs())[0].state == "ok"


async def test_another_plan_needs_another_approval() -> None:
    journal, policy = MemoryJournal(), Policy(approve="later")
    down = Team(journal, "none").conductor
    assert (await down.run("What?", run_id="x", policy=policy)).status == "waiting"
    await down.decide("x", approved=True)
    assert (await down.resume("x", policy=policy)).status == "partial"
    assert (await down.resume("x", policy=policy)).status == "partial"
    team = Team(journal, f"{FALLBACK}\n{BETTER}")
    assert (await team.conductor.resume("x", policy=policy)).status == "waiting"
    await team.conductor.decide("x", approved=True)
    assert (await team.conductor.resume("x", policy=policy)).status == "ok"
    assert team.calls == [1, 0, 1]
