"""Chat engines as workers."""

import threading
from typing import Any

import pytest
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle
from llamaindex.library import Shelf
from llamaindex.speaking import TOKENS, Blocking, Native

from llama_index_podium import ConductorQueryEngine, as_worker
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.execution import Retry
from podium.planners import FixedPlanner
from podium.workers import Gather

pytestmark = pytest.mark.anyio

ONCE = Retry(attempts=1)
TWO = Plan((Step(0, "first"), Step(1, "Acme March", (0,))))


class _AsyncShelf(Shelf):
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._retrieve(query_bundle)


def _engines(llm: Any, seen: list[str], shelf: Shelf | None = None) -> dict[str, Any]:
    shelf = shelf or _AsyncShelf("contracts", seen)
    reader = RetrieverQueryEngine(shelf, get_response_synthesizer(llm=llm))
    return {
        "simple": SimpleChatEngine.from_defaults(llm=llm),
        "context": ContextChatEngine.from_defaults(retriever=shelf, llm=llm),
        "condense plus": CondensePlusContextChatEngine.from_defaults(
            retriever=shelf, llm=llm, skip_condense=True
        ),
        "condense": CondenseQuestionChatEngine.from_defaults(query_engine=reader, llm=llm),
    }


KINDS = ("simple", "context", "condense plus", "condense")


@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_asked_its_subtask_after_what_it_may_see(kind: str) -> None:
    """It searches for the subtask alone; its nodes are sources, and its tokens are counted."""
    seen, prompts = list[str](), list[str]()

    async def speak(prompt: str) -> str:
        prompts.append(prompt)
        return "Acme March" if "Standalone" in prompt or "standalone" in prompt else "It ends in March."

    engine = _engines(Native(speak), seen)[kind]
    workers = [ScriptedWorker("a", "canary-one"), as_worker(engine, name="chat")]
    conductor = ConductorQueryEngine(workers=workers, planner=FixedPlanner(TWO))
    response = await conductor.aquery("the-question")
    assert str(response) == "It ends in March."
    assert "canary-one" in prompts[0]
    assert "the-question" in prompts[0]
    assert seen == ([] if kind == "simple" else ["Acme March"])
    assert {node.node_id for node in response.source_nodes} == (
        set() if kind == "simple" else {"c1", "shared"}
    )
    assert response.metadata["steps"][1]["usage"]["total_tokens"] == len(prompts) * TOKENS["total_tokens"]
    assert engine.chat_history == []


@pytest.mark.parametrize("kind", ["context", "condense plus"])
async def test_a_retriever_that_blocks_keeps_no_other_step_waiting(kind: str) -> None:
    """It is called in a thread, and its nodes are sources."""
    met = threading.Barrier(2)

    class Meeting(Shelf):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            met.wait(20)
            return super()._retrieve(query_bundle)

    llm = Blocking("It ends in March.")
    two = [as_worker(_engines(llm, [], Meeting("contracts"))[kind], name=name) for name in ("a", "b")]
    plan = Plan((Step(0, "Acme March"), Step(1, "Acme March"), Step(2, "join", (0, 1))))
    engine = ConductorQueryEngine(workers=[*two, Gather()], planner=FixedPlanner(plan))
    response = await engine.aquery("?")
    assert {node.node_id: node.metadata["podium_steps"] for node in response.source_nodes} == {
        "c1": [0, 1],
        "shared": [0, 1],
    }


async def test_an_engine_that_finds_nothing_says_so() -> None:
    """And a model that writes nothing gives no answer."""

    async def speak(prompt: str) -> str:
        return ""

    chat = as_worker(_engines(Native(speak), [])["context"], name="chat")
    conductor = Conductor(FixedPlanner("x"), [chat], retry=ONCE)
    result = await conductor.run(Plan((Step(0, "zebra"),)))
    assert (result.answer, result.status) == ("Nothing was found for: zebra", "partial")
    silent = as_worker(SimpleChatEngine.from_defaults(llm=Native(speak)))
    result = await Conductor(FixedPlanner("x"), [silent], retry=ONCE).run(Plan((Step(0, "x"),)))
    assert "gave no answer" in result.explain()
