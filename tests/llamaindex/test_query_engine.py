"""A conductor as a query engine: its responses, their nodes, streams, prompts and failures."""

from typing import Any

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.response_synthesizers.no_text import NoText
from llama_index.core.schema import (
    ImageNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeWithScore,
    QueryBundle,
)
from llama_index.core.tools import RetrieverTool
from llamaindex.library import Shelf, planned
from llamaindex.speaking import Blocking, Native

from llama_index_podium import ConductorQueryEngine, ConductorRetriever, as_worker
from podium import Conductor, ScriptedWorker
from podium.errors import RunFailed
from podium.execution import Retry
from podium.workers import Gather

pytestmark = pytest.mark.anyio


def _silos() -> list[Any]:
    return [
        as_worker(Shelf(name), name=name, description=f"the {name}") for name in ("contracts", "invoices")
    ]


BOTH = ((0, "Acme contract", ()), (1, "Acme invoiced", ()), (2, "join", (0, 1)))


async def test_source_nodes_are_those_behind_the_answer_each_once() -> None:
    """A node that two steps found is there once and names both; what no answer is made of is not there."""
    planner = planned((0, "Bolt July", ()), *((w, s, tuple(a + 1 for a in b)) for w, s, b in BOTH))
    engine = ConductorQueryEngine(workers=[*_silos(), Gather()], planner=planner)
    response = await engine.aquery("What of Acme?")
    found = {node.node_id: node.metadata["podium_steps"] for node in response.source_nodes}
    assert found == {"c1": [1], "c2": [1], "shared": [1, 2], "i1": [2], "i2": [2]}
    assert "ends in March" in str(response)
    assert "file_name: c1.txt" in str(response)
    assert [step["status"] for step in response.metadata["steps"]] == ["skipped", "ok", "ok", "ok"]


async def test_the_index_is_left_as_it_was() -> None:
    """What a source node says of its steps stands in a copy, and is shown to no model."""
    shelf = Shelf("contracts")
    engine = ConductorQueryEngine(workers=[as_worker(shelf, name="a")], planner=planned((0, "Acme", ())))
    (first, *_) = engine.query("?").source_nodes
    assert first.metadata == {"file_name": "c1.txt", "podium_steps": [0]}
    assert "podium_steps" not in first.node.get_content(MetadataMode.LLM)
    assert "podium_steps" not in first.node.get_content(MetadataMode.EMBED)
    assert shelf.nodes[0].metadata == {"file_name": "c1.txt"}


def _finds_nothing(kind: str) -> Any:
    shelf = Shelf("contracts")
    if kind == "tool":
        return RetrieverTool.from_defaults(shelf, name="silo", description="d")
    synthesizer = get_response_synthesizer(llm=Blocking("invented"), streaming=True)
    return as_worker(RetrieverQueryEngine(shelf, synthesizer), name="silo")


@pytest.mark.parametrize("kind", ["tool", "streaming"])
async def test_a_search_that_finds_nothing_says_so(kind: str) -> None:
    engine = ConductorQueryEngine(workers=[_finds_nothing(kind)], planner=planned((0, "zebra", ())))
    response = await engine.aquery("?")
    assert str(response).startswith("Nothing was found for: zebra\n\n(Not complete: ")
    assert response.source_nodes == []
    assert response.metadata["status"] == "partial"
    assert "nothing was found" in response.metadata["problem"]["message"]


async def test_an_engine_is_shown_its_access_list_and_looks_for_its_subtask() -> None:
    """Its model reads the outputs it may see, neither others nor the question; the subtask is embedded."""
    seen, asked = list[QueryBundle](), list[str]()

    class Embedded(Shelf):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            seen.append(query_bundle)
            return [NodeWithScore(node=self.nodes[0])]

    def say(prompt: str) -> str:
        asked.append(prompt)
        return "fine"

    inner = RetrieverQueryEngine(Embedded("contracts"), get_response_synthesizer(llm=Blocking(say)))
    planner = planned((0, "first", ()), (0, "hidden", ()), (1, "second", (0,)), (2, "x", (1, 2)))
    first = ScriptedWorker("first", {"first": "canary-one", "hidden": "canary-two"})
    engine = ConductorQueryEngine(workers=[first, as_worker(inner, name="e"), Gather()], planner=planner)
    await engine.aquery("the-question")
    (shown,) = asked
    assert seen[0].embedding_strs == ["second"]
    assert [part in shown for part in ("canary-one", "canary-two", "the-question")] == [True, False, False]


async def test_streams_the_answer_with_the_nodes_it_is_made_of() -> None:
    """The response comes when the answer is begun; the nodes are there, and what it cost at the end."""

    async def speak(shown: str) -> str:
        return "one two three"

    workers = [*_silos(), Native(speak, name="writer")]
    engine = ConductorQueryEngine(workers=workers, planner=planned(*BOTH), streaming=True)
    response = await engine.aquery("?")
    assert {node.node_id for node in response.source_nodes} == {"c1", "c2", "i1", "i2", "shared"}
    assert "usage" not in response.metadata
    assert len(response.metadata["plan"]["steps"]) == 3
    assert response.metadata["planner"]["name"] == "fixed"
    pieces = [piece async for piece in response.async_response_gen()]
    assert pieces == ["one", " two", " three"]
    assert response.metadata["usage"]["total_tokens"] == 242
    assert str((await response.get_response()).response) == "one two three"


@pytest.mark.parametrize(("kind", "caption"), [("resource", "a map"), ("engine", "a map")])
async def test_an_image_that_a_search_finds_is_named_as_left_out(kind: str, caption: str) -> None:
    """The output of a step is text; the node itself is a source all the same."""

    class Pictures(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            if kind == "resource":
                text, picture = MediaResource(text=caption), MediaResource(data=b"aGVsbG8=")
                return [NodeWithScore(node=Node(id_="map", text_resource=text, image_resource=picture))]
            return [NodeWithScore(node=ImageNode(id_="map", image="aGVsbG8=", text=caption))]

    pictures: Any = Pictures()
    if kind == "engine":
        pictures = RetrieverQueryEngine(pictures, NoText(llm=Blocking("x")))
    worker = as_worker(pictures, name="pictures", description="maps")
    engine = ConductorQueryEngine(workers=[worker], planner=planned((0, "x", ())))
    response = await engine.aquery("?")
    told = "not passed on, since the output of a step is text: an image (node 'map')"
    text = f"{caption}\n\n[{told}]" if caption else f"[{told}]"
    assert str(response).startswith(f"{text}\n\n(Not complete: ")
    assert (response.metadata["status"], told in response.metadata["problem"]["message"]) == ("partial", True)
    assert [node.node_id for node in response.source_nodes] == ["map"]


async def test_a_retriever_returns_the_nodes_behind_the_answer() -> None:
    """Whoever asks it; each says which steps and which run found it, and no model is shown that."""
    plan = planned((0, "Acme March", ()), (1, "Acme invoiced", ()), (2, "join", (0, 1)))
    retriever = ConductorRetriever(workers=_silos(), planner=plan)
    for nodes in (await retriever.aretrieve("?"), retriever.retrieve(QueryBundle("?"))):
        found = {node.node_id: node.metadata["podium_steps"] for node in nodes}
        assert found == {"c1": [0], "shared": [0, 1], "i1": [1], "i2": [1]}
        run = nodes[0].metadata["podium_run"]
        assert (run["status"], run["problem"], run["planner"]["name"]) == ("ok", None, "fixed")
        assert "podium" not in nodes[0].node.get_content(MetadataMode.LLM)
        assert "podium" not in nodes[0].node.get_content(MetadataMode.EMBED)


async def test_the_answer_can_be_the_first_node() -> None:
    """With the whole run; else what workers that search nothing wrote is in no node."""
    worker = ScriptedWorker("writer", "Acme ends in March.")
    conductor = Conductor(planned((0, "write", ())), [worker])
    assert await ConductorRetriever(conductor).aretrieve("?") == []
    (node,) = await ConductorRetriever(conductor, answer=True).aretrieve("?")
    assert node.text == node.node.get_content(MetadataMode.LLM) == "Acme ends in March."
    assert node.metadata["podium_run"]["steps"][0]["output"] == "Acme ends in March."


async def test_what_is_lacking_is_told() -> None:
    """On each node, and by the last; where there is none, by an error."""
    broken = Blocking(lambda prompt: 1 / 0, name="broken")
    plan = planned((0, "March", ()), (1, "guess", ()), (2, "join", (0, 1)))
    workers = [as_worker(Shelf("contracts"), name="contracts"), broken]
    retriever = ConductorRetriever(workers=workers, planner=plan, retry=Retry(attempts=1))
    (node, lack) = await retriever.aretrieve("?")
    assert lack.text.startswith("(Not complete: ")
    assert node.metadata["podium_run"]["status"] == "partial"
    assert "division by zero" in node.metadata["podium_run"]["problem"]["message"]
    strict = ConductorRetriever(retriever.conductor, partial="raise")
    with pytest.raises(RunFailed, match="is partial"):
        await strict.aretrieve("?")
    nothing = ConductorRetriever(workers=[Shelf("contracts")], planner=planned((0, "zebra", ())))
    with pytest.raises(RunFailed, match=r"no node was found .*nothing was found") as raised:
        await nothing.aretrieve("?")
    assert raised.value.result.status == "partial"
