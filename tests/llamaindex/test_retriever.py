"""A conductor as a retriever: its nodes, and what takes a retriever."""

import pytest
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import MetadataMode, QueryBundle, TextNode
from llamaindex.library import Shelf
from llamaindex.speaking import Blocking, Native

from llama_index_podium import ConductorRetriever, as_worker
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import RunFailed
from podium.execution import Retry
from podium.plan_text import write_plan
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio

BOTH = ((0, "Acme March", ()), (1, "Acme invoiced", ()), (2, "join", (0, 1)))


def planned(*steps: tuple[int, str, tuple[int, ...]]) -> FixedPlanner:
    """Return a planner that gives these steps."""
    return FixedPlanner(write_plan(Plan(tuple(Step(*step) for step in steps)), "rows"))


def silos() -> ConductorRetriever:
    """Return a retriever over two retrievers, without any model."""
    workers = [as_worker(Shelf(name), name=name) for name in ("contracts", "invoices")]
    return ConductorRetriever(workers=workers, planner=planned(*BOTH))


async def test_returns_the_nodes_behind_the_answer() -> None:
    """Whoever asks it; each says which steps and which run found it, and no model is shown that."""
    retriever = silos()
    for nodes in (await retriever.aretrieve("?"), retriever.retrieve(QueryBundle("?"))):
        found = {node.node_id: node.metadata["podium_steps"] for node in nodes}
        assert found == {"c1": [0], "shared": [0, 1], "i1": [1], "i2": [1]}
        run = nodes[0].metadata["podium_run"]
        assert (run["status"], run["problem"], run["planner"]["name"]) == ("ok", None, "fixed")
        assert "podium" not in nodes[0].node.get_content(MetadataMode.LLM)
        assert "podium" not in nodes[0].node.get_content(MetadataMode.EMBED)


async def test_two_nodes_of_one_id_are_both_returned() -> None:
    """LlamaIndex's own retrievers drop one of them."""
    other = Shelf("contracts")
    other.nodes = [TextNode(id_="c1", text="Another contract with Acme ends in March.")]
    workers = [as_worker(Shelf("contracts"), name="a"), as_worker(other, name="b")]
    plan = planned((0, "March", ()), (1, "March", ()), (2, "join", (0, 1)))
    retriever = ConductorRetriever(workers=workers, planner=plan)
    for nodes in (await retriever.aretrieve("?"), retriever.retrieve("?")):
        assert [node.node_id for node in nodes] == ["c1", "c1"]
        assert len({node.text for node in nodes}) == 2


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
    broken = Blocking(lambda prompt: 1 / 0, name="broken")  # type: ignore[arg-type, return-value]
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


async def test_a_chat_engine_takes_it() -> None:
    """Its answers are made of the nodes that the conductor found, which are its sources."""
    shown: list[str] = []

    async def speak(prompt: str) -> str:
        shown.append(prompt)
        return "It ends in March."

    chat = CondensePlusContextChatEngine.from_defaults(silos(), llm=Native(speak))
    response = await chat.achat("When does it end?")
    assert str(response) == "It ends in March."
    assert {node.node_id for node in response.source_nodes} == {"c1", "shared", "i1", "i2"}
    assert "1200 euros" in shown[0]


async def test_an_evaluator_takes_it() -> None:
    """It counts the ids that were found."""
    evaluator = RetrieverEvaluator.from_metric_names(["hit_rate", "mrr"], retriever=silos())
    result = await evaluator.aevaluate("?", expected_ids=["i1"])
    assert result.metric_vals_dict == {"hit_rate": 1.0, "mrr": 1 / 3}


async def test_a_query_engine_is_built_over_it() -> None:
    """The engine's own synthesizer writes the answer."""
    engine = RetrieverQueryEngine(silos(), get_response_synthesizer(llm=Blocking("written")))
    assert str(engine.query("?")) == "written"


async def test_as_a_worker_it_is_its_conductor() -> None:
    """So the limits of the run around it hold for its steps."""
    retriever = silos()
    assert as_worker(retriever) is retriever.conductor
