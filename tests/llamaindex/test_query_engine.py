"""A conductor as a query engine: its responses, their nodes, streams, prompts and failures."""

from itertools import permutations
from typing import Any

import pytest
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import AsyncStreamingResponse, Response, StreamingResponse
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine, TransformQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.response_synthesizers.no_text import NoText
from llama_index.core.schema import (
    ImageNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeWithScore,
    QueryBundle,
    TextNode,
)
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool, ToolMetadata
from llamaindex.library import Shelf, index_of
from llamaindex.speaking import TOKENS, Blocking, Native

from llama_index_podium import ConductorQueryEngine, as_worker
from podium import Card, Conductor, Limits, Plan, RulePlanner, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed
from podium.execution import Retry
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.workers import Gather, StepInput

pytestmark = pytest.mark.anyio


def planned(*steps: tuple[int, str, tuple[int, ...]]) -> FixedPlanner:
    """Return a planner that gives these steps."""
    return FixedPlanner(write_plan(Plan(tuple(Step(*step) for step in steps)), "rows"))


def silos() -> list[Any]:
    """Return two retrievers under names."""
    return [
        as_worker(Shelf(name), name=name, description=f"the {name}") for name in ("contracts", "invoices")
    ]


BEST = "Acme and Bolt are both suppliers"
BOTH = ((0, "Acme contract", ()), (1, "Acme invoiced", ()), (2, "join", (0, 1)))


async def test_source_nodes_are_those_behind_the_answer_each_once() -> None:
    """A node that two steps found is there once and names both; what no answer is made of is not there."""
    planner = planned((0, "Bolt July", ()), *((w, s, tuple(a + 1 for a in b)) for w, s, b in BOTH))
    engine = ConductorQueryEngine(workers=[*silos(), Gather()], planner=planner)
    response = await engine.aquery("What of Acme?")
    assert isinstance(response, Response)
    found = {node.node_id: node.metadata["podium_steps"] for node in response.source_nodes}
    assert found == {"c1": [1], "c2": [1], "shared": [1, 2], "i1": [2], "i2": [2]}
    assert "ends in March" in str(response)
    assert "file_name: c1.txt" in str(response)
    assert response.metadata is not None
    assert [step["status"] for step in response.metadata["steps"]] == ["skipped", "ok", "ok", "ok"]


async def test_a_search_looks_up_what_an_earlier_step_found() -> None:
    """Retrievers, query engines and tools are asked with outputs in place of references."""
    seen: list[str] = []
    contracts, invoices = Shelf("contracts", seen), Shelf("invoices", seen)

    class Noting(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            seen.append(query_str.splitlines()[-1])
            return "engine said"

    def pay(supplier: str, euros: int = 1) -> str:
        """Pays."""
        return f"{euros} to {supplier}"

    planner = planned(
        (0, "July", ()),
        (1, "name the supplier", (0,)),
        (2, "{{1}} invoiced", (1,)),
        (3, "What of {{1}}?", (1,)),
        (4, "{{1}}", (1,)),
        (5, "join", (2, 3, 4)),
    )
    workers = [
        as_worker(contracts, name="contracts"),
        ScriptedWorker("reader", "Bolt"),
        as_worker(invoices, name="invoices"),
        as_worker(Noting(), name="engine"),
        as_worker(FunctionTool.from_defaults(pay)),
        Gather(),
    ]
    response = await ConductorQueryEngine(workers=workers, planner=planner).aquery("What of July?")
    assert seen[0] == "July"
    assert sorted(seen[1:]) == ["Bolt invoiced", "What of Bolt?"]
    assert "300 euros" in str(response)
    assert "1 to Bolt" in str(response)


async def test_the_index_is_left_as_it_was() -> None:
    """What a source node says of its steps stands in a copy, and is shown to no model."""
    shelf = Shelf("contracts")
    engine = ConductorQueryEngine(workers=[as_worker(shelf, name="a")], planner=planned((0, "Acme", ())))
    (first, *_) = engine.query("?").source_nodes
    assert first.metadata == {"file_name": "c1.txt", "podium_steps": [0]}
    assert "podium_steps" not in first.node.get_content(MetadataMode.LLM)
    assert "podium_steps" not in first.node.get_content(MetadataMode.EMBED)
    assert shelf.nodes[0].metadata == {"file_name": "c1.txt"}


@pytest.mark.parametrize(
    "subtasks", [*permutations(("Acme", "Acme and Bolt", "Acme and Bolt are both suppliers"))]
)
async def test_a_node_has_the_best_of_its_scores(subtasks: tuple[str, ...]) -> None:
    """Three steps find it with three scores; their order does not matter."""
    planner = planned(*((0, subtask, ()) for subtask in subtasks), (1, "x", (0, 1, 2)))
    engine = ConductorQueryEngine(
        workers=[as_worker(Shelf("contracts"), name="a"), Gather()], planner=planner
    )
    (node,) = [n for n in (await engine.aquery("?")).source_nodes if n.node_id == "shared"]
    assert (node.score, node.metadata["podium_steps"]) == (6.0, [0, 1, 2])


@pytest.mark.parametrize("scores", [*permutations((None, -1.0, 0.0))])
async def test_any_score_is_better_than_none(scores: tuple[float | None, ...]) -> None:
    """Scores may be 0 or less, and some retrievers give none."""
    (node, *_) = Shelf("contracts").nodes
    engines = [Said(answer=Response("fine", [NodeWithScore(node=node, score=score)])) for score in scores]
    workers = [as_worker(engine, name=f"w{number}") for number, engine in enumerate(engines)]
    planner = planned((0, "a", ()), (1, "b", ()), (2, "c", ()), (3, "x", (0, 1, 2)))
    engine = ConductorQueryEngine(workers=[*workers, Gather()], planner=planner)
    (found,) = (await engine.aquery("?")).source_nodes
    assert found.score == 0.0


class Said(CustomQueryEngine):
    """Answers with what it was made with."""

    answer: Response

    def custom_query(self, query_str: str) -> Response:
        """Answer."""
        return self.answer


async def test_nodes_of_an_attempt_that_failed_do_not_count() -> None:
    """The step was tried again, and found others then."""
    nodes, said = [NodeWithScore(node=node) for node in Shelf("contracts").nodes], ["", "fine"]

    class Other(Shelf):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return nodes[:2] if said[0] == "" else nodes[2:]

    twice = RetrieverQueryEngine(
        Other("contracts"), get_response_synthesizer(llm=Blocking(lambda prompt: said.pop(0)))
    )
    engine = ConductorQueryEngine(
        workers=[as_worker(twice, name="twice")],
        planner=planned((0, "Acme", ())),
        retry=Retry(attempts=2, first_wait=0.001),
    )
    response = await engine.aquery("?")
    assert (str(response), [node.node_id for node in response.source_nodes]) == ("fine", ["shared"])


def other_library() -> Shelf:
    """Return a shelf whose nodes have the ids of the contracts, and other texts."""
    shelf = Shelf("contracts")
    shelf.nodes = [TextNode(id_=node.id_, text=f"Other. {node.text}") for node in shelf.nodes]
    return shelf


@pytest.mark.parametrize("streaming", [False, True])
async def test_two_silos_with_equal_ids_lose_no_text(*, streaming: bool) -> None:
    """Nodes of one id are one node only where their content is the same."""
    workers = [as_worker(Shelf("contracts"), name="a"), as_worker(other_library(), name="b"), Gather()]
    plan = planned((0, "July", ()), (1, "July", ()), (2, "join", (0, 1)))
    engine = ConductorQueryEngine(workers=workers, planner=plan, streaming=streaming)
    response = await engine.aquery("?")
    if isinstance(response, AsyncStreamingResponse):
        [piece async for piece in response.async_response_gen()]
    found = [(node.node_id, node.text, node.metadata["podium_steps"]) for node in response.source_nodes]
    text = "The contract with Bolt ends in July."
    assert found == [("c2", text, [0]), ("c2", f"Other. {text}", [1])]


@pytest.mark.parametrize("rewrites", [False, True])
async def test_an_engine_without_text_answers_with_its_nodes(*, rewrites: bool) -> None:
    """Also where a model has rewritten the question it searches for."""
    engine: BaseQueryEngine = RetrieverQueryEngine(Shelf("contracts"), NoText(llm=Blocking("x")))
    if rewrites:
        engine = TransformQueryEngine(engine, HyDEQueryTransform(llm=Blocking("Acme"), include_original=True))
    conductor = ConductorQueryEngine(
        workers=[as_worker(engine, name="silo")], planner=planned((0, "Acme March", ()))
    )
    response = await conductor.aquery("?")
    assert "The contract with Acme ends in March" in str(response)
    assert {node.node_id for node in response.source_nodes} == {"c1", "shared"}
    assert response.metadata is not None
    assert response.metadata["status"] == "ok"


def finds_nothing(kind: str) -> Any:
    """Return something that searches and finds nothing."""
    shelf = Shelf("contracts")
    if kind == "retriever":
        return as_worker(shelf, name="silo")
    if kind == "tool":
        return RetrieverTool.from_defaults(shelf, name="silo", description="d")
    synthesizer = get_response_synthesizer(llm=Blocking("invented"), streaming=kind == "streaming")
    if kind == "no text":
        synthesizer = NoText(llm=Blocking("x"))
    return as_worker(RetrieverQueryEngine(shelf, synthesizer), name="silo")


@pytest.mark.parametrize("kind", ["retriever", "tool", "engine", "streaming", "no text"])
async def test_a_search_that_finds_nothing_says_so(kind: str) -> None:
    """Its words are none of LlamaIndex's, and the run is not `ok`."""
    engine = ConductorQueryEngine(workers=[finds_nothing(kind)], planner=planned((0, "zebra", ())))
    response = await engine.aquery("?")
    assert str(response).startswith("Nothing was found for: zebra\n\n(Not complete: ")
    assert response.source_nodes == []
    assert response.metadata is not None
    assert response.metadata["status"] == "partial"
    assert "nothing was found" in response.metadata["problem"]["message"]


@pytest.mark.parametrize("text", ["", "Empty Response"])
async def test_a_model_that_writes_nothing_gives_no_answer(text: str) -> None:
    """It is not a search that found nothing: there are nodes, or there is not even LlamaIndex's word."""
    engine = RetrieverQueryEngine(
        Shelf("contracts"),
        get_response_synthesizer(llm=Blocking(text), response_mode=ResponseMode.SIMPLE_SUMMARIZE),
    )
    conductor = ConductorQueryEngine(
        workers=[as_worker(engine, name="silo")], planner=planned((0, "Acme", ())), retry=Retry(attempts=1)
    )
    with pytest.raises(RunFailed, match="gave no answer"):
        await conductor.aquery("?")


async def test_nodes_of_a_nested_conductor_are_those_of_its_step() -> None:
    """The step of the outer plan has found them."""
    inner = ConductorQueryEngine(
        workers=[as_worker(Shelf("invoices"), name="invoices")],
        planner=planned((0, "Bolt", ())),
        card=Card(name="books", description="the books"),
    )
    planner = planned((0, "Acme", ()), (1, "Bolt", ()), (2, "x", (0, 1)))
    engine = ConductorQueryEngine(
        workers=[as_worker(Shelf("contracts"), name="contracts"), inner, Gather()], planner=planner
    )
    nodes = (await engine.aquery("?")).source_nodes
    assert {n.node_id: n.metadata["podium_steps"] for n in nodes} == {"c1": [0], "shared": [0, 1], "i2": [1]}


async def test_a_tool_around_it_has_its_nodes() -> None:
    """And the run's metadata, for the agent that calls it."""
    engine = ConductorQueryEngine(workers=[silos()[0]], planner=planned((0, "March", ())))
    output = await QueryEngineTool.from_defaults(engine, name="team", description="d").acall("?")
    assert [node.node_id for node in output.raw_output.source_nodes] == ["c1"]
    assert output.raw_output.metadata["status"] == "ok"
    assert output.raw_output.metadata["planner"]["name"] == "fixed"


def engine_tool(silo: str, llm: Any) -> QueryEngineTool:
    """Return a query engine over a vector index, as a tool."""
    engine = index_of(silo).as_query_engine(llm=llm, similarity_top_k=1)
    return QueryEngineTool(engine, ToolMetadata(name=silo, description=f"the {silo}"))


async def test_engines_llms_and_tools_work_together() -> None:
    """An engine's model, a tool's function, a retriever as a tool and an LLM that writes; what each spent."""
    asked: list[str] = []

    def say(prompt: str) -> str:
        asked.append(prompt)
        return "the whole of it" if "Write it up." in prompt else "engine says 1200"

    def double(amount: int, times: int = 2) -> str:
        """Multiply an amount."""
        return str(amount * times)

    llm = Blocking(say)
    tools = [
        engine_tool("invoices", llm),
        FunctionTool.from_defaults(double),
        RetrieverTool.from_defaults(Shelf("contracts"), name="contracts", description="the contracts"),
        llm,
    ]
    planner = planned(
        (0, "Acme invoiced 1200 euros", ()),
        (1, '{"amount": 1200, "times": 3}', (0,)),
        (2, "contract with Acme", ()),
        (3, "Write it up.", (0, 1, 2)),
    )
    engine = ConductorQueryEngine(workers=tools, planner=planner)
    response = await engine.aquery("How much in three months?")
    assert response.metadata is not None
    steps = response.metadata["steps"]
    assert str(response) == "the whole of it"
    assert [step["output"] for step in steps[:2]] == ["engine says 1200", "3600"]
    assert [step["worker"] for step in steps] == ["invoices", "double", "contracts", "blocking"]
    assert [step["usage"]["total_tokens"] for step in steps] == [TOKENS["total_tokens"], 0, 0, 242]
    assert {n.node_id: n.metadata["podium_steps"] for n in response.source_nodes} == {
        "i1": [0],
        "c1": [2],
        "c2": [2],
        "shared": [2],
    }
    for part in ("engine says 1200", "3600", "ends in March", "Write it up.", "How much in three months?"):
        assert part in asked[-1]


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

    workers = [*silos(), Native(speak, name="writer")]
    engine = ConductorQueryEngine(workers=workers, planner=planned(*BOTH), streaming=True)
    response = await engine.aquery("?")
    assert isinstance(response, AsyncStreamingResponse)
    assert {node.node_id for node in response.source_nodes} == {"c1", "c2", "i1", "i2", "shared"}
    assert response.metadata is not None
    assert "usage" not in response.metadata
    assert len(response.metadata["plan"]["steps"]) == 3
    assert response.metadata["planner"]["name"] == "fixed"
    pieces = [piece async for piece in response.async_response_gen()]
    assert pieces == ["one", " two", " three"]
    assert response.metadata["usage"]["total_tokens"] == 242
    assert str((await response.get_response()).response) == "one two three"


def test_streams_to_code_that_is_not_async() -> None:
    """The same response, read by a loop."""

    async def speak(shown: str) -> str:
        return "one two three"

    workers = [*silos(), Native(speak, name="writer")]
    engine = ConductorQueryEngine(workers=workers, planner=planned(*BOTH), streaming=True)
    response = engine.query("?")
    assert isinstance(response, StreamingResponse)
    assert len(response.source_nodes) == 5
    assert list(response.response_gen) == ["one", " two", " three"]
    assert response.metadata is not None
    assert response.metadata["status"] == "ok"


async def test_a_failed_query_raises_with_all_that_was_paid_for() -> None:
    """Streamed or not; the error holds the result."""
    worker = Blocking(lambda prompt: 1 / 0, name="a")  # type: ignore[arg-type, return-value]
    for streaming in (False, True):
        engine = ConductorQueryEngine(
            workers=[worker], planner=planned((0, "x", ())), streaming=streaming, retry=Retry(attempts=1)
        )
        with pytest.raises(RunFailed, match="division by zero") as raised:
            await engine.aquery("?")
        assert raised.value.result.outcomes[0].status == "failed"


async def test_a_partial_answer_says_what_it_lacks() -> None:
    """It is returned, and its nodes are those of what there is."""
    broken = Blocking(lambda prompt: 1 / 0, name="broken")  # type: ignore[arg-type, return-value]
    writer = Blocking("written", name="writer")
    plan = ((0, "contract Acme March", ()), (1, "guess", ()), (2, "write", (0, 1)))
    engine = ConductorQueryEngine(
        workers=[silos()[0], broken, writer], planner=planned(*plan), retry=Retry(attempts=1)
    )
    response = await engine.aquery("?")
    assert response.metadata is not None
    assert (response.metadata["status"], response.metadata["problem"]["code"]) == ("partial", "worker_failed")
    assert str(response).startswith("written\n\n(Not complete: ")
    assert {node.metadata["podium_steps"][0] for node in response.source_nodes} == {0}


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_partial_answer_can_be_refused(*, streaming: bool) -> None:
    """A streamed one at its end; and only by a word that there is."""
    broken = Blocking(lambda prompt: 1 / 0, name="broken")  # type: ignore[arg-type, return-value]
    plan = planned((0, "contract Acme March", ()), (1, "guess", ()), (2, "write", (0, 1)))
    engine = ConductorQueryEngine(
        workers=[silos()[0], broken, Blocking("written", name="writer")],
        planner=plan,
        streaming=streaming,
        partial="raise",
        retry=Retry(attempts=1),
    )

    async def ask() -> None:
        response = await engine.aquery("?")
        assert isinstance(response, AsyncStreamingResponse)
        [piece async for piece in response.async_response_gen()]

    with pytest.raises(RunFailed, match="is partial"):
        await ask()


@pytest.mark.parametrize("caption", ["", "a map"])
@pytest.mark.parametrize("kind", ["image", "resource", "engine"])
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
    assert response.metadata is not None
    assert (response.metadata["status"], told in response.metadata["problem"]["message"]) == ("partial", True)
    assert [node.node_id for node in response.source_nodes] == ["map"]


async def test_what_the_conductor_takes_can_be_said() -> None:
    """Limits, for one; a conductor that is ready is taken as it is."""
    engine = ConductorQueryEngine(
        workers=[Blocking("a", name="a")],
        planner=planned((0, "x", ()), (0, "y", (0,))),
        limits=Limits(calls=1),
    )
    with pytest.raises(RunFailed, match=r"Limits\.calls"):
        await engine.aquery("?")
    conductor = Conductor(RulePlanner(), [ScriptedWorker("w", "ok")])
    assert str(await ConductorQueryEngine(conductor).aquery("?")) == "ok"


async def test_the_fallback_planner_may_be_an_llm() -> None:
    """What is neither an LLM nor a planner is refused."""
    plan = write_plan(Plan((Step(0, "x"),)), "rows")
    workers = [Blocking("a", name="a")]
    engine = ConductorQueryEngine(
        workers=workers, planner=FixedPlanner("no plan"), fallback_planner=Blocking(plan, name="planner")
    )
    response = await engine.aquery("?")
    assert response.metadata is not None
    assert response.metadata["planner"]["is_fallback"]
    with pytest.raises(ConfigError, match=r"fallback_planner: .* neither an LLM nor a planner"):
        ConductorQueryEngine(workers=workers, planner=planned((0, "x", ())), fallback_planner=object())


async def test_a_query_engine_can_be_a_worker_of_podiums_own_conductor() -> None:
    """`as_worker` stands alone."""
    llm = Blocking(lambda prompt: "March" if "March" in prompt else "?")
    worker = as_worker(engine_tool("contracts", llm))
    result = await Conductor(planned((0, "contract Acme March", ())), [worker]).run("?")
    assert (result.answer, worker.card.name) == ("March", "contracts")
    assert worker.card.description == "the contracts"


def test_what_is_no_worker_is_refused() -> None:
    """With what to do instead."""

    def function(step_input: StepInput) -> str:
        return ""

    with pytest.raises(ConfigError, match="wrap a function in a FunctionTool"):
        as_worker(function)
