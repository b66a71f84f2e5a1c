"""Events carry the ids of what they belong to, and are plain JSON data."""

import json
from collections.abc import AsyncGenerator
from typing import Any, get_args

import anyio
import pytest
from core.actors import Actor, PlanningActor, boss, rows, writing

from podium.budget import Limits, Spend
from podium.conductor import Conductor
from podium.errors import WorkerRefused, WorkerUnavailable
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import PlanRequest, PlanText
from podium.policy import Policy
from podium.types import ActionDecided, Event, Message
from podium.types.events import FanOut
from podium.workers import Card, ScriptedWorker, StepInput
from podium.workers.simple import FunctionWorker, Reply

pytestmark = pytest.mark.anyio

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


async def _rich_run() -> list[Event]:
    """Return the events of a run in which everything happens once."""
    deep = ScriptedWorker(Card(name="w", parts=frozenset({"image_url"})), "deep")
    inner = Conductor(boss(rows((0, "inner", ()))), [deep], card=Card(name="team"))
    workers = [
        inner,
        ScriptedWorker("bad", WorkerRefused("no")),
        Actor("slow", writing("a", "b", pause=0.001)),
    ]
    plan = rows(
        (0, "delegate", ()), (1, "fails", ()), (2, "answer", (0,)), (1, "unseen", ()), (2, "end", (2, 0))
    )
    query = [Message("user", ({"type": "text", "text": "What?"}, IMAGE))]
    conductor = Conductor(
        boss("no plan", plan),
        workers,
        limits=Limits(rounds=2),
        accept=lambda q, a: "no",
        policy=Policy(approve=lambda request: True),
    )
    nested = Conductor(boss(rows((0, "delegate", ()))), [inner], journal=MemoryJournal())

    async def agent(step: StepInput) -> str:
        """Begin a run."""
        return (await inner.run(step.subtask)).answer

    around = Conductor(boss(rows((0, "begin", ()))), [FunctionWorker(agent, card=deep.card)])
    return [event for run in (conductor, nested, around) async for event in run.stream(query)]


async def _hangs(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    await anyio.sleep_forever()
    yield ""


async def _broken_run() -> list[Event]:
    """Return the events of a run that is stopped, and taken up again with a call that fails once."""
    events, journal = list[Event](), MemoryJournal()
    replies: list[Reply] = [WorkerUnavailable("busy"), "done"]
    workers = [ScriptedWorker("flaky", lambda request: replies.pop(0))]
    retry = Retry(first_wait=0.001)
    stopped = Conductor(PlanningActor(_hangs), workers, journal=journal, retry=retry)
    with anyio.move_on_after(0.05):
        await stopped.run("What?", run_id="x", on_event=events.append)
    resumed = Conductor(boss(rows((0, "go", ()))), workers, journal=journal, retry=retry)
    await resumed.resume("x", on_event=events.append)
    return events


async def test_every_event_is_json() -> None:
    """Written and read again, an event's JSON form is what it was."""
    decided = ActionDecided(run_id="x", at=0.0, round=1, step=0, done=True, by="ann")
    items = FanOut(
        run_id="x", at=0.0, round=1, step=0, kind="items", count=1, expected=Spend(1), worst=Spend(1)
    )
    events = [*await _rich_run(), *await _broken_run(), decided, items]
    for event in events:
        data: dict[str, Any] = event.to_json()
        assert json.dumps(json.loads(json.dumps(data))) == json.dumps(data)
        assert (data["schema"], data["type"], data["run_id"]) == (2, event.type, event.run_id)
    assert {type(event) for event in events} == set(get_args(Event))


async def test_step_events_name_round_step_and_attempt() -> None:
    """Every started step ends under the same ids."""
    data = [event.to_json() for event in await _rich_run()]
    ids = ("run_id", "round", "step", "attempt")
    started = [tuple(d[key] for key in ids) for d in data if d["type"] == "step_started"]
    ended = [tuple(d[key] for key in ids) for d in data if d["type"] == "step_ended"]
    assert set(started) <= set(ended)
    assert len(ended) == len(set(ended))
    assert all(tuple(d[key] for key in ids) in started for d in data if d["type"] == "step_delta")
