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
from podium.types import Event, PlannerEnded, RunEnded
from podium.workers import Pool
from podium.workers.simple import Reply as Scripted

PLAN = rows((0, "go", ()))


def _down(status: int, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return whole({"error": {"message": f"status {status}"}}, status=status, headers=named)


FAULTS = {
    "503": (_down(503), 3, "planner_unreachable"),
    "429": (_down(429), 3, "planner_unreachable"),
    "reset": (Reply((RESET,)), 3, "planner_unreachable"),
    "cut": (events(chunk({"content": PLAN[:9]}), CUT), 3, "planner_unreachable"),
    "no end": (events(chunk({"content": PLAN}), done=False), 3, "planner_unreachable"),
    "no choices": (whole({"object": "chat.completion", "choices": []}), 3, "planner_unreachable"),
    "401": (_down(401), 1, "planner_refused"),
    "404": (_down(404), 1, "planner_refused"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("fault", "calls", "code"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_of_the_moment_is_tried_again_and_a_refusal_is_not(
    fault: Reply, calls: int, code: str
) -> None:
    faults: list[Reply] = [fault] * 3

    def reply(call: Call) -> Reply:
        return faults.pop(0) if faults else says(call, PLAN)

    async with ChatServer(reply) as server:
        planner = ChatPlanner(ChatWorker("boss", endpoint=Endpoint(server.url, api_key="key")))
        conductor = Conductor(planner, [ScriptedWorker("a", "A")], retry=Retry(first_wait=0.01))
        with pytest.raises(PlannerError) as caught:
            await conductor.run("What?")
        assert (caught.value.code, len(server.calls)) == (code, calls)
        del faults[min(calls - 1, len(faults)) :]
        result = await conductor.run("What?")
    assert (result.status, result.answer, result.problem) == ("ok", "A", None)
    assert [call.planner for call in result.proposals] == ["boss"] * len(result.proposals)


@pytest.mark.anyio
async def test_a_bad_plan_is_repaired_by_the_run_that_goes_on() -> None:
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
@pytest.mark.parametrize(("seconds", "planned"), [(1e-6, False), (0.2, True)])
async def test_the_end_of_the_run_is_a_limit_and_not_the_failure_of_the_planner(
    seconds: float, *, planned: bool
) -> None:
    async with ChatServer(lambda _: Reply((STALL,))) as server:
        planner = ChatPlanner(ChatWorker("boss", endpoint=Endpoint(server.url, api_key="key")))
        conductor = Conductor(planner, [ScriptedWorker("a", "A")], limits=Limits(seconds=seconds))
        with pytest.raises(PlannerError, match=r"Limits\.seconds") as caught:
            await (conductor.plan("What?") if planned else conductor.run("What?"))
    assert caught.value.code == "planner_limit"
    assert len(server.calls) <= 1
    if seconds < 0.1:
        assert (caught.value.usage.total_tokens, caught.value.cost) == (0, 0.0), "it was not sent"
