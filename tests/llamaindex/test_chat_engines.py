"""Chat engines as workers."""

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
from llamaindex.speaking import TOKENS, Native

from llama_index_podium import ConductorQueryEngine, as_worker
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.execution import Retry
from podium.planners import FixedPlanner

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


async def test_an_engine_that_finds_nothing_says_so() -> None:
    async def speak(prompt: str) -> str:
        return ""

    chat = as_worker(_engines(Native(speak), [])["context"], name="chat")
    conductor = Conductor(FixedPlanner("x"), [chat], retry=ONCE)
    result = await conductor.run(Plan((Step(0, "zebra"),)))
    assert (result.answer, result.status) == ("Nothing was found for: zebra", "partial")
    silent = as_worker(SimpleChatEngine.from_defaults(llm=Native(speak)))
    result = await Conductor(FixedPlanner("x"), [silent], retry=ONCE).run(Plan((Step(0, "x"),)))
    assert "gave no answer" in result.explain()
