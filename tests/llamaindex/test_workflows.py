"""Workflows of the user's own as workers, and a conductor as a workflow, with the people whom it asks."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.llms import ChatMessage
from llama_index.core.schema import NodeWithScore, TextNode
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
from llamaindex.speaking import Native

from llama_index_podium import ConductorQueryEngine, ConductorWorkflow, as_worker
from llama_index_podium.events import PersonAskedEvent, ProgressEvent
from podium import Conductor, FunctionWorker, Plan, Result, Retry, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import Card, Gather, PersonWorker, StepInput

pytestmark = pytest.mark.anyio
ONCE = Retry(attempts=1)


class Trip(StartEvent):
    """Where to, and for how long."""

    city: str
    days: int = 1


class Traveller(Workflow):
    """Plans a trip."""

    llm: Any = None

    @step
    async def plan(self, event: Trip) -> StopEvent:
        if self.llm is None:
            return StopEvent(result={"city": event.city, "days": event.days})
        return StopEvent(result=await self.llm.achat([ChatMessage(f"{event.city} {event.days}")]))


class Plain(Workflow):
    """Returns what it was made with, after it has read the query."""

    def __init__(self, result: Any = None) -> None:
        super().__init__()
        self.result = result
        self.seen: list[str] = []

    @step
    async def answer(self, event: StartEvent) -> StopEvent:
        self.seen.append(event.query)
        return StopEvent(result=self.result)


async def _run(worker: Any, subtask: str = "Bern", **options: Any) -> Result:
    conductor = Conductor(FixedPlanner("x"), [as_worker(worker)], retry=ONCE, **options)
    return await conductor.run(Plan((Step(0, subtask),)))


async def test_its_start_event_says_what_it_is_given() -> None:
    """As a tool's schema does: one text that is required, or a JSON object, which is checked."""
    result = await _run(Traveller())
    assert (result.answer, result.status) == ('{"city": "Bern", "days": 1}', "ok"), result.explain()
    assert (await _run(Traveller(), '{"city": "Ulm", "days": 3}')).answer == '{"city": "Ulm", "days": 3}'
    refused = await _run(Traveller(), '{"town": "Ulm"}')
    assert refused.outcomes[0].problem.code == "worker_refused"
    card = as_worker(Traveller()).card
    assert (card.name, card.description[:12]) == ("Traveller", "Plans a trip")
    assert 'Its subtask is its "city"' in card.description


async def test_a_start_event_without_fields_needs_a_name() -> None:
    plain = Plain("fine")
    result = await _run(as_worker(plain, name="w", input_field="query"))
    assert (result.answer, plain.seen) == ("fine", ["Bern"])
    with pytest.raises(ConfigError, match="input_field='query'"):
        as_worker(plain)
    with pytest.raises(ConfigError, match=r"declared fields \(city, days\)"):
        as_worker(Traveller(), input_field="query")
    with pytest.raises(ConfigError, match="is not a workflow"):
        as_worker(Native(lambda prompt: None), input_field="query")


NODE = NodeWithScore(node=TextNode(id_="n", text="a passage"), score=0.5)


ENDS = [(ChatMessage("said"), "said"), (Response("read", [NODE]), "read"), ([NODE], "a passage")]


@pytest.mark.parametrize(("result", "text"), ENDS)
async def test_what_it_ends_with_is_text(result: Any, text: str) -> None:
    worker = as_worker(Plain(result), name="w", input_field="query")
    engine = ConductorQueryEngine(workers=[worker], planner=FixedPlanner(Plan((Step(0, "x"),))))
    response = await engine.aquery("?")
    assert str(response) == text
    nodes = [node.node_id for node in response.source_nodes]
    assert nodes == ([] if isinstance(result, ChatMessage) else ["n"])


async def test_its_errors_are_told() -> None:
    """Its own, its time-out, an empty end, and a question to a person."""

    class Failing(Workflow):
        @step
        async def fail(self, event: Trip) -> StopEvent:
            if event.city == "slow":
                await anyio.sleep_forever()
            raise ConnectionError("down")

    class Asking(Workflow):
        @step
        async def ask(self, event: Trip) -> InputRequiredEvent:
            return InputRequiredEvent(prefix="Sure?")

        @step
        async def go_on(self, event: HumanResponseEvent) -> StopEvent:
            return StopEvent(result=event.response)

    async def problem(worker: Any, subtask: str = "Bern") -> tuple[str, str]:
        found = (await _run(worker, subtask)).outcomes[0].problem
        return found.code, found.message

    assert (await problem(Failing()))[0] == "worker_unavailable"
    assert (await problem(Failing(timeout=0.1), "slow"))[0] == "worker_timeout"
    code, message = await problem(Asking())
    assert (code, "'Sure?'" in message) == ("worker_refused", True)
    assert "empty answer" in (await problem(as_worker(Plain(), name="w", input_field="query")))[1]


class Found(StopEvent):
    town: str


class Finder(Workflow):
    @step
    async def find(self, event: Trip) -> Found:
        return Found(town=event.city)


async def test_an_end_of_its_own_is_json() -> None:
    assert (await _run(Finder())).answer == '{"town": "Bern"}'


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
    @step
    async def ask(self, event: StartEvent) -> InputRequiredEvent:
        return InputRequiredEvent(prefix=f"Really {event.task}?")

    @step
    async def act(self, event: HumanResponseEvent) -> StopEvent:
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
        assert (str(await handler), done) == ("refunded order 1017", ["order 1017"])
