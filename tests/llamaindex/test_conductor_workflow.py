"""A conductor as a workflow: its stream, and the people whom it asks."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from llama_index.core.workflow import (
    Context,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from llamaindex.library import Shelf

from llama_index_podium import ConductorWorkflow, as_worker
from llama_index_podium.events import PersonAskedEvent, ProgressEvent
from podium import FunctionWorker, Plan, ScriptedWorker, Step
from podium.errors import RunFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import Card, Gather, PersonWorker, StepInput

pytestmark = pytest.mark.anyio
Answer = Callable[[Any], HumanResponseEvent]


async def _heard(handler: Any, answer: Answer | None = None) -> tuple[Any, list[Any]]:
    """Return the result of a workflow and its events, each answered as `answer` says."""
    events = []
    with anyio.fail_after(20):
        async for event in handler.stream_events():
            events.append(event)
            if isinstance(event, InputRequiredEvent) and answer is not None:
                handler.ctx.send_event(answer(event))
        return await handler, events


def asked(events: list[Any]) -> list[PersonAskedEvent]:
    return [event for event in events if isinstance(event, PersonAskedEvent)]


async def test_it_streams_the_answer_and_the_steps() -> None:
    """The result has the nodes behind the answer; a map's items are counted."""
    plan = Plan((Step(0, "{{item}}", each=("March", "Acme")), Step(1, "join", (0,))))
    workers = [as_worker(Shelf("contracts"), name="contracts"), ScriptedWorker("writer", "It ends in March.")]
    made = ConductorWorkflow(planner=FixedPlanner(plan), workers=workers, show_steps=True)
    response, events = await _heard(made.run(user_msg="When?"))
    assert str(response) == "It ends in March."
    assert {node.metadata["podium_steps"][0] for node in response.source_nodes} == {0}
    assert all(node.score is not None for node in response.source_nodes)
    told = [event for event in events if isinstance(event, ProgressEvent)]
    assert "".join(event.delta for event in told) == "It ends in March."
    progress = "".join(event.progress for event in told)
    assert progress.startswith("Plan by fixed:\n0. contracts: {{item}} (for each of 2)\n1. writer")
    assert "2 of 2" in progress
    quiet = ConductorWorkflow(made.conductor)
    _, events = await _heard(quiet.run(user_msg="When?"))
    assert not any(event.progress for event in events if isinstance(event, ProgressEvent))


def _refunds(**options: Any) -> tuple[ConductorWorkflow, list[str]]:
    """Return a workflow whose action waits for approval, and what was carried out."""
    done: list[str] = []

    def refund(asked: StepInput) -> str:
        done.append(asked.subtask)
        return f"refunded {asked.subtask}"

    worker = FunctionWorker(refund, card=Card(name="refund"), acts=True)
    plan = FixedPlanner(Plan((Step(0, "order 1017"),)))
    return ConductorWorkflow(planner=plan, workers=[worker], **options), done


@pytest.mark.parametrize(
    ("policy", "kind", "name"),
    [(Policy(approve="later"), "plan", "plan"), (Policy(approve="later", ask="actions"), "action", "0")],
)
async def test_a_person_approves_what_waits(policy: Policy, kind: Any, name: str) -> None:
    """The question says what it is about; another word than yes or no is asked again."""
    made, done = _refunds(policy=policy)
    words = iter(["maybe", "yes"])
    response, events = await _heard(
        made.run(user_msg="?"), lambda event: HumanResponseEvent(response=next(words), name=event.name)
    )
    first, again = asked(events)
    assert (first.kind, first.name, first.run_id) == (kind, name, response.metadata["run_id"])
    assert all(part in first.prefix for part in ("refund", "order 1017"))
    assert again.prefix.startswith("'maybe' is neither yes nor no\n")
    assert (str(response), done) == ("refunded order 1017", ["order 1017"])


async def test_what_is_refused_is_not_done() -> None:
    made, done = _refunds(policy=Policy(approve="later"))
    with pytest.raises(RunFailed, match="too expensive"):
        await _heard(made.run(user_msg="?"), lambda event: HumanResponseEvent(response="No, too expensive"))
    assert done == []


async def test_people_answer_the_questions_of_steps_in_any_order() -> None:
    """Each under its name; a choice that there is not is asked again."""
    people = [PersonWorker("north", choices=["a", "b"]), PersonWorker("south")]
    plan = Plan((Step(0, "A or b?"), Step(1, "How many?"), Step(2, "join", (0, 1))))
    made = ConductorWorkflow(planner=FixedPlanner(plan), workers=[*people, Gather()])
    handler, seen, events = made.run(user_msg="?"), dict[str, PersonAskedEvent](), []
    with anyio.fail_after(20):
        async for event in handler.stream_events():
            if not isinstance(event, PersonAskedEvent):
                continue
            events.append(event)
            seen[event.name] = event
            if len(events) == 2:
                handler.ctx.send_event(HumanResponseEvent(response="seven"))  # of whom?
            if len(events) == 4:
                handler.ctx.send_event(HumanResponseEvent(response="seven", name="1"))
                handler.ctx.send_event(HumanResponseEvent(response="c", name="0"))
            if len(events) == 5:
                handler.ctx.send_event(HumanResponseEvent(response="b"))
        response = await handler
    assert [event.name for event in events] == ["0", "1", "0", "1", "0"]
    assert seen["0"].choices == ["a", "b"]
    assert "needs one of the names" in events[2].prefix
    assert "one of" in events[4].prefix
    assert {"b", "seven"} <= set(str(response).split())


class Careful(Workflow):
    """Asks before it acts."""

    @step
    async def ask(self, event: StartEvent) -> InputRequiredEvent:
        """Ask."""
        return InputRequiredEvent(prefix=f"Really {event.task}?")

    @step
    async def act(self, event: HumanResponseEvent) -> StopEvent:
        """Act."""
        return StopEvent(result=f"said {event.response}")


async def test_a_worker_asks_by_its_own_events() -> None:
    """While other steps run; two questions are asked one after the other."""
    workers = [as_worker(Careful(), name=name, input_field="task") for name in ("one", "two")]
    plan = Plan((Step(0, "pay"), Step(1, "sell"), Step(2, "join", (0, 1))))
    made = ConductorWorkflow(planner=FixedPlanner(plan), workers=[*workers, Gather()])
    response, events = await _heard(
        made.run(user_msg="?"), lambda event: HumanResponseEvent(response=event.prefix.split()[1])
    )
    assert len([event for event in events if isinstance(event, InputRequiredEvent)]) == 2
    assert {"pay?", "sell?"} <= set(str(response).split())


async def test_a_context_that_was_stored_goes_on() -> None:
    async with MemoryJournal() as journal:
        made, done = _refunds(policy=Policy(approve="later"), journal=journal)
        handler = made.run(user_msg="?")
        async for event in handler.stream_events():
            if isinstance(event, PersonAskedEvent):
                stored = handler.ctx.to_dict()
                await handler.cancel_run()
                break
        other = ConductorWorkflow(made.conductor)
        handler = other.run(ctx=Context.from_dict(other, stored))
        handler.ctx.send_event(HumanResponseEvent(response="yes"))
        assert str(await handler) == "refunded order 1017"
        assert done == ["order 1017"]
