"""What the server of a planner does wrong is tried again, or is an error; it never passes for an answer."""

import json
from collections.abc import Sequence
from contextlib import suppress

import anyio
import pytest
from core.actors import boss, rows
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st
from servers.chat_server import CUT, RESET, STALL, Call, ChatServer, Reply, chunk, events, says, whole

from podium import ChatPlanner, ChatWorker, Conductor, Endpoint, RulePlanner, ScriptedWorker
from podium.budget import Limits
from podium.errors import PlannerError, WorkerBroken, WorkerRefused, WorkerTimeout, WorkerUnavailable
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.run_state import fold
from podium.types import Event, PlannerEnded, PlannerStarted, Result, RunEnded
from podium.workers import Pool
from podium.workers.simple import Reply as Scripted

PLAN = rows((0, "go", ()))


def _down(status: int, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return whole({"error": {"message": f"status {status}"}}, status=status, headers=named)


class Site:
    """A conductor whose planner's server replies in turn, then with a plan."""

    def __init__(self, *replies: Reply) -> None:
        self.left = list(replies)
        self.server = ChatServer(self._reply)
        self.events: list[Event] = []

    def _reply(self, call: Call) -> Reply:
        return self.left.pop(0) if self.left else says(call, PLAN)

    async def run(self, *, stream: bool = False, **options: object) -> Result:
        """Run once, and return the result."""
        options.setdefault("retry", Retry(first_wait=0.01, max_wait=5))
        async with self.server:
            planner = ChatPlanner(ChatWorker("boss", endpoint=Endpoint(self.server.url, api_key="key")))
            conductor = Conductor(planner, [ScriptedWorker("a", "A")], **options)  # type: ignore[arg-type]
            if not stream:
                return await conductor.run("What?", on_event=self.events.append)
            async for event in conductor.stream("What?"):
                self.events.append(event)
        last = self.events[-1]
        assert isinstance(last, RunEnded)
        return last.result

    @property
    def waits(self) -> list[float | None]:
        """The wait after each call of the planner."""
        return [event.wait for event in self.events if isinstance(event, PlannerEnded)]


PASSING = {
    "503": _down(503),
    "429": _down(429),
    "500": _down(500),
    "408": _down(408),
    "reset": Reply((RESET,)),
    "closed": Reply((CUT,)),
    "cut": events(chunk({"content": PLAN[:9]}), CUT),
    "no end": events(chunk({"content": PLAN}), done=False),
    "text": whole("busy", content_type="text/plain"),
    "no choices": whole({"object": "chat.completion", "choices": []}),
}
LASTING = {"400": _down(400), "401": _down(401), "403": _down(403), "404": _down(404)}


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
async def test_a_fault_of_the_moment_is_tried_again(fault: Reply, *, stream: bool) -> None:
    """Two of them cost two calls, and nothing else; three leave no plan."""
    site = Site(fault, fault)
    result = await site.run(stream=stream)
    assert (result.status, result.answer, result.problem) == ("ok", "A", None)
    assert result.planner is not None
    assert (result.planner.name, result.planner.is_fallback) == ("boss", False)
    assert [call.problem is None for call in result.proposals] == [False, False, True]
    assert len([event for event in site.events if isinstance(event, PlannerStarted)]) == 3
    gone = Site(fault, fault, fault)
    with pytest.raises(PlannerError) as caught:
        await gone.run(stream=stream)
    assert caught.value.code == "planner_unreachable"
    assert len(gone.server.calls) == 3


@pytest.mark.anyio
@pytest.mark.parametrize("fault", LASTING.values(), ids=LASTING)
async def test_a_refusal_is_not_tried_again(fault: Reply) -> None:
    """Another call would be refused, too."""
    site = Site(fault)
    with pytest.raises(PlannerError) as caught:
        await site.run()
    assert caught.value.code == "planner_refused"
    assert len(site.server.calls) == 1


@pytest.mark.anyio
async def test_a_run_without_a_plan_is_recorded_and_resumed() -> None:
    """What its calls cost counts against the limits of the resumed run."""
    journal = MemoryJournal()
    site = Site(_down(503), _down(503), _down(503))
    with pytest.raises(PlannerError) as caught:
        await site.run(journal=journal, retry=Retry(first_wait=0.01))
    run_id = caught.value.run_id
    (row,) = await journal.runs()
    assert (row.run_id, row.state) == (run_id, "failed")
    recorded = [entry.event for entry in await journal.read(run_id)]
    assert sum(spend.calls for spend in fold(recorded).spent()) == 3
    again = Conductor(boss(PLAN), [ScriptedWorker("a", "A")], journal=journal)
    result = await again.resume(run_id)
    assert (result.status, result.answer, len(result.proposals)) == ("ok", "A", 4)
    failing = Conductor(boss(WorkerRefused("no")), [ScriptedWorker("a", "A")], journal=journal)
    for _ in range(2):  # the same id and question are the same run: it has no plan still
        with pytest.raises(PlannerError):
            await failing.run("Why?", run_id="mine")


@pytest.mark.anyio
async def test_a_bad_plan_is_repaired_by_the_run_that_goes_on() -> None:
    """A run that was cancelled between the two texts does not ask for the first one again."""
    journal = MemoryJournal()
    planner = boss("no plan", PLAN)
    conductor = Conductor(planner, [ScriptedWorker("a", "A")], journal=journal)
    with anyio.CancelScope() as scope:

        def stop(event: Event) -> None:
            if isinstance(event, PlannerEnded):
                scope.cancel()

        await conductor.run("What?", run_id="r", on_event=stop)
    result = await conductor.resume("r")
    assert [call.role for call in result.proposals if call.problem is None] == ["repair"]
    assert [call.role for call in result.proposals].count("plan") == 1
    assert result.status == "ok"


WAYS: dict[str, Scripted] = {
    "plan": rows((0, "go", ())),
    "other": rows((0, "go on", ())),
    "prose": "I would ask around.",
    "bad": '{"worker": 9, "subtask": "go", "access": []}\n',
    "keep": '{"steps": []}',
    "down": WorkerUnavailable("down"),
    "late": WorkerTimeout("late", maybe_paid=True),
    "cut": WorkerBroken("cut", maybe_paid=True),
    "refused": WorkerRefused("no"),
    "raises": ValueError("oops"),
}


@given(
    ways=st.lists(st.sampled_from(sorted(WAYS)), min_size=1, max_size=8),
    rounds=st.integers(1, 3),
    attempts=st.integers(1, 3),
    has_fallback=st.booleans(),
)
def test_no_failing_planner_has_a_run_end_ok(
    ways: Sequence[str], rounds: int, attempts: int, *, has_fallback: bool
) -> None:
    """`ok` means that the planner that was asked for planned every round."""
    planner = boss(*[WAYS[way] for way in ways])
    conductor = Conductor(
        planner,
        Pool([ScriptedWorker("a", "A")]),
        limits=Limits(rounds=rounds),
        retry=Retry(attempts=attempts),
        fallback_planner=RulePlanner() if has_fallback else None,
    )
    seen: list[Event] = []
    with suppress(PlannerError):
        result = anyio.run(
            lambda: conductor.run("What? And why?", on_event=seen.append), backend_options=OPTIONS
        )
        assert result.answer == "A"
    last = seen[-1]
    assert isinstance(last, RunEnded)
    well = all(
        current.plan is not None and current.planner is not None and current.planner.name == "boss"
        for current in last.result.rounds
    )
    assert (last.result.status == "ok") == well
    assert (last.result.answer == "") == (last.result.status == "failed")
    used = [call for call in last.result.proposals if call.problem is None]
    assert has_fallback or all(call.planner == "boss" for call in used)
    assert json.dumps(last.to_json())


@pytest.mark.anyio
@pytest.mark.parametrize("seconds", [1e-6, 0.2])
@pytest.mark.parametrize("planned", [False, True])
async def test_the_end_of_the_run_is_a_limit_and_not_the_failure_of_the_planner(
    seconds: float, *, planned: bool
) -> None:
    """Whoever notices it first: the client of the model has the same deadline."""
    async with ChatServer(lambda _: Reply((STALL,))) as server:
        planner = ChatPlanner(ChatWorker("boss", endpoint=Endpoint(server.url, api_key="key")))
        conductor = Conductor(planner, [ScriptedWorker("a", "A")], limits=Limits(seconds=seconds))
        with pytest.raises(PlannerError, match=r"Limits\.seconds") as caught:
            await (conductor.plan("What?") if planned else conductor.run("What?"))
    assert caught.value.code == "planner_limit"
    assert len(server.calls) <= 1
    if seconds < 0.1:
        assert (caught.value.usage.total_tokens, caught.value.cost) == (0, 0.0), "it was not sent"


@pytest.mark.anyio
async def test_a_planner_that_is_too_slow_names_its_limit() -> None:
    """`Limits.planner_seconds` ends each call."""
    async with ChatServer(lambda _: Reply((STALL,))) as server:
        planner = ChatPlanner(ChatWorker("boss", endpoint=Endpoint(server.url, api_key="key")))
        settings = {"limits": Limits(planner_seconds=0.2), "retry": Retry(first_wait=0.01, attempts=2)}
        conductor = Conductor(planner, [ScriptedWorker("a", "A")], **settings)  # type: ignore[arg-type]
        with pytest.raises(PlannerError, match=r"within 0\.2 s \(Limits\.planner_seconds\)") as caught:
            await conductor.run("What?")
    assert caught.value.code == "planner_unreachable"
    assert "kept us waiting" not in str(caught.value)
    assert "worker_timeout, 2 times" in str(caught.value)
