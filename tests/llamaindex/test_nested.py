"""Conductors inside LlamaIndex's own objects, which are workers: the limits around them hold."""

from typing import Any

import pytest
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llamaindex.library import Shelf
from llamaindex.speaking import Native

from llama_index_podium import (
    ConductorLLM,
    ConductorQueryEngine,
    ConductorRetriever,
    ConductorToolSpec,
    as_worker,
)
from podium import Conductor, Limits, Plan, Step
from podium.execution import Retry
from podium.planners import FixedPlanner

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
    pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning"),
]

STEPS = Plan((Step(0, "a"), Step(0, "b"), Step(0, "c"), Step(0, "d", (0, 1, 2))))
"""Four calls of one worker."""
ONE = Plan((Step(0, "Acme"),))
MANY = {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}
KINDS = ("query engine tool", "retriever tool", "tool", "agent", "chat engine", "workflow", "query engine")


class Asking(Workflow):
    """Asks an LLM."""

    llm: Any = None

    @step
    async def ask(self, event: StartEvent) -> StopEvent:
        """Ask it."""
        return StopEvent(result=str(await self.llm.acomplete(event.query)))


def wrapped(kind: str, conductor: Conductor) -> Any:
    """Return an object of LlamaIndex's around a conductor, as a worker."""
    llm = ConductorLLM(conductor)
    match kind:
        case "query engine tool":
            thing: Any = QueryEngineTool.from_defaults(
                ConductorQueryEngine(conductor), name="w", description="d"
            )
        case "retriever tool":
            retriever = ConductorRetriever(conductor, answer=True)
            thing = RetrieverTool.from_defaults(retriever, name="w", description="d")
        case "tool":
            thing = ConductorToolSpec(conductor).to_tool_list()[0]
        case "agent":
            thing = ReActAgent(name="w", llm=llm)
        case "chat engine":
            thing = SimpleChatEngine.from_defaults(llm=llm)
        case "workflow":
            thing = Asking()
            thing.llm = llm
            return as_worker(thing, input_field="query")
        case _:
            thing = RetrieverQueryEngine(Shelf("contracts"), get_response_synthesizer(llm=llm))
    return as_worker(thing)


def conductor(worker: Any, steps: Plan, **options: Any) -> Conductor:
    """Return a conductor of one worker, which makes each call once."""
    return Conductor(FixedPlanner(steps), [as_worker(worker)], retry=Retry(attempts=1), **options)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
async def test_limits_and_bills_are_those_of_the_run_around_it(kind: str) -> None:
    """No more calls are made than that run may make; and each is on its bill once."""
    called: list[str] = []

    async def speak(prompt: str) -> str:
        called.append(prompt)
        return "Thought: I can answer.\nAnswer: done"

    inner = conductor(Native(speak, name="busy", tokens=MANY), STEPS)
    limited = conductor(wrapped(kind, inner), ONE, limits=Limits(calls=3))
    result = await limited.run("?")
    assert result.status != "ok"
    assert len(called) <= 3
    called.clear()
    result = await conductor(wrapped(kind, inner), ONE).run("?")
    assert (result.status, len(called)) == ("ok", 4), result.explain()
    assert result.usage.total_tokens == 4 * MANY["total_tokens"]


async def test_nodes_of_an_engine_inside_are_there_once() -> None:
    """As found by the step of the plan around it."""
    inner = ConductorQueryEngine(conductor(as_worker(Shelf("contracts"), name="silo"), ONE))
    tool = QueryEngineTool.from_defaults(inner, name="w", description="d")
    response = await ConductorQueryEngine(conductor(tool, ONE)).aquery("?")
    assert [(node.node_id, node.metadata["podium_steps"]) for node in response.source_nodes] == [
        ("c1", [0]),
        ("shared", [0]),
    ]
    assert response.source_nodes[0].node.excluded_llm_metadata_keys == ["podium_steps"]
