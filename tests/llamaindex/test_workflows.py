"""Workflows of the user's own as workers."""

from typing import Any

import anyio
import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.llms import ChatMessage
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.workflow import (
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from llamaindex.speaking import Native

from llama_index_podium import ConductorQueryEngine, as_worker
from podium import Conductor, Plan, Step
from podium.errors import ConfigError
from podium.execution import Retry
from podium.planners import FixedPlanner
from podium.types import Result

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
        """Plan it."""
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
        """Answer."""
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
    assert card.name == "Traveller"
    assert card.description.startswith('Plans a trip. Its subtask is its "city"')


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


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ChatMessage("said", role="assistant"), "said"),
        (Response("read", [NODE]), "read"),
        ([NODE], "a passage"),
    ],
)
async def test_what_it_ends_with_is_text(result: Any, text: str) -> None:
    worker = as_worker(Plain(result), name="w", input_field="query")
    response = await ConductorQueryEngine(
        workers=[worker], planner=FixedPlanner(Plan((Step(0, "x"),)))
    ).aquery("?")
    assert str(response) == text
    nodes = [node.node_id for node in response.source_nodes]
    assert nodes == (["n"] if result == [NODE] or isinstance(result, Response) else [])


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
    """An end of the workflow's own."""

    town: str


class Finder(Workflow):
    """Ends with an event of its own."""

    @step
    async def find(self, event: Trip) -> Found:
        """Find it."""
        return Found(town=event.city)


async def test_an_end_of_its_own_is_json() -> None:
    assert (await _run(Finder())).answer == '{"town": "Bern"}'
