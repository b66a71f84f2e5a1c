"""A conductor as a query engine: responses, nodes, streams, failures, traces; chat engines as workers."""

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalStartEvent
from llama_index.core.instrumentation.span import SimpleSpan
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.response_synthesizers.no_text import NoText
from llama_index.core.schema import ImageNode, MediaResource, MetadataMode, Node, NodeWithScore, QueryBundle
from llama_index.core.tools import RetrieverTool
from llamaindex.library import Shelf, planned
from llamaindex.speaking import TOKENS, Blocking, Native
from pydantic import Field

from llama_index_podium import ConductorQueryEngine, ConductorRetriever, as_worker
from llama_index_podium.events import PlanReadyEvent, StepEndEvent, StepEvent, StepStartEvent
from podium import Conductor, Plan, Retry, ScriptedWorker, Step
from podium.errors import RunFailed
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.workers import Gather

pytestmark = pytest.mark.anyio


def _silos() -> list[Any]:
    return [as_worker(Shelf(name), name=name, description=name) for name in ("contracts", "invoices")]


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
    shown = [first.node.get_content(mode) for mode in (MetadataMode.LLM, MetadataMode.EMBED)]
    assert "podium_steps" not in "".join(shown)
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
    assert (response.source_nodes, response.metadata["status"]) == ([], "partial")
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
    assert (len(response.metadata["plan"]["steps"]), response.metadata["planner"]["name"]) == (3, "fixed")
    pieces = [piece async for piece in response.async_response_gen()]
    assert (pieces, response.metadata["usage"]["total_tokens"]) == (["one", " two", " three"], 242)
    assert str((await response.get_response()).response) == "one two three"


@pytest.mark.parametrize("kind", ["resource", "engine"])
async def test_an_image_that_a_search_finds_is_named_as_left_out(kind: str) -> None:
    """The output of a step is text; the node itself is a source all the same."""

    class Pictures(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            if kind == "resource":
                text, picture = MediaResource(text="a map"), MediaResource(data=b"aGVsbG8=")
                return [NodeWithScore(node=Node(id_="map", text_resource=text, image_resource=picture))]
            return [NodeWithScore(node=ImageNode(id_="map", image="aGVsbG8=", text="a map"))]

    pictures: Any = Pictures()
    if kind == "engine":
        pictures = RetrieverQueryEngine(pictures, NoText(llm=Blocking("x")))
    worker = as_worker(pictures, name="pictures", description="maps")
    engine = ConductorQueryEngine(workers=[worker], planner=planned((0, "x", ())))
    response = await engine.aquery("?")
    told = "not passed on, since the output of a step is text: an image (node 'map')"
    assert str(response).startswith(f"a map\n\n[{told}]\n\n(Not complete: ")
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
        shown = [nodes[0].node.get_content(mode) for mode in (MetadataMode.LLM, MetadataMode.EMBED)]
        assert "podium" not in "".join(shown)


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


ONCE = Retry(attempts=1)
TWO = Plan((Step(0, "first"), Step(1, "Acme March", (0,))))


class _AsyncShelf(Shelf):
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._retrieve(query_bundle)


def _made(kind: str, llm: Any, seen: list[str]) -> Any:
    shelf = _AsyncShelf("contracts", seen)
    match kind:
        case "simple":
            return SimpleChatEngine.from_defaults(llm=llm)
        case "context":
            return ContextChatEngine.from_defaults(retriever=shelf, llm=llm)
        case "condense plus":
            options: Any = {"retriever": shelf, "llm": llm, "skip_condense": True}
            return CondensePlusContextChatEngine.from_defaults(**options)
    reader = RetrieverQueryEngine(shelf, get_response_synthesizer(llm=llm))
    return CondenseQuestionChatEngine.from_defaults(query_engine=reader, llm=llm)


@pytest.mark.parametrize("kind", ["simple", "context", "condense plus", "condense"])
async def test_it_is_asked_its_subtask_after_what_it_may_see(kind: str) -> None:
    """It searches for the subtask alone; its nodes are sources, and its tokens are counted."""
    seen, prompts = list[str](), list[str]()

    async def speak(prompt: str) -> str:
        prompts.append(prompt)
        return "Acme March" if "Standalone" in prompt or "standalone" in prompt else "It ends in March."

    engine = _made(kind, Native(speak), seen)
    workers = [ScriptedWorker("a", "canary-one"), as_worker(engine, name="chat")]
    conductor = ConductorQueryEngine(workers=workers, planner=FixedPlanner(TWO))
    response = await conductor.aquery("the-question")
    assert str(response) == "It ends in March."
    assert all(part in prompts[0] for part in ("canary-one", "the-question"))
    found = {node.node_id for node in response.source_nodes}
    assert (seen, found) == (([], set()) if kind == "simple" else (["Acme March"], {"c1", "shared"}))
    assert response.metadata["steps"][1]["usage"]["total_tokens"] == len(prompts) * TOKENS["total_tokens"]
    assert engine.chat_history == []


async def test_an_engine_that_finds_nothing_says_so() -> None:
    async def speak(prompt: str) -> str:
        return ""

    chat = as_worker(_made("context", Native(speak), []), name="chat")
    conductor = Conductor(FixedPlanner("x"), [chat], retry=ONCE)
    result = await conductor.run(Plan((Step(0, "zebra"),)))
    assert (result.answer, result.status) == ("Nothing was found for: zebra", "partial")
    silent = as_worker(SimpleChatEngine.from_defaults(llm=Native(speak)))
    result = await Conductor(FixedPlanner("x"), [silent], retry=ONCE).run(Plan((Step(0, "x"),)))
    assert "gave no answer" in result.explain()


_TOLD = (PlanReadyEvent, StepEvent, QueryStartEvent, QueryEndEvent)
PLAN = Plan((Step(0, "Acme"), Step(1, "write", (0,))))


class _Events(BaseEventHandler):
    seen: list[Any] = Field(default_factory=list)

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.seen.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.seen if isinstance(event, kind)]


class _Heard:
    def __init__(self) -> None:
        self.events = _Events()
        self.spans = SimpleSpanHandler()

    def above(self, span: SimpleSpan) -> list[str]:
        known = {one.id_: one for one in (*self.spans.completed_spans, *self.spans.dropped_spans)}
        chain = []
        while span.parent_id is not None:
            span = known[span.parent_id]
            chain.append(_name_of(span))
        return chain

    def named(self, beginning: str) -> SimpleSpan:
        spans = (*self.spans.completed_spans, *self.spans.dropped_spans)
        (span,) = [one for one in spans if one.id_.startswith(beginning)]
        return span


def _name_of(span: SimpleSpan) -> str:
    return span.id_[:-37]


@pytest.fixture
def heard() -> Iterator[_Heard]:
    root, heard = get_dispatcher(), _Heard()
    root.add_event_handler(heard.events)
    root.add_span_handler(heard.spans)
    yield heard
    root.event_handlers.remove(heard.events)
    root.span_handlers.remove(heard.spans)


async def _speak(shown: str) -> str:
    return "it is written"


def _chief(plan: Plan) -> Blocking:
    return Blocking(write_plan(plan, "rows"), name="chief")


def _engine(**options: Any) -> ConductorQueryEngine:
    """Return an engine over a retriever and a writer, planned by an LLM."""
    workers = [as_worker(Shelf("contracts"), name="shelf"), Native(_speak, name="writer")]
    return ConductorQueryEngine(workers=workers, planner=_chief(PLAN), **options)


@pytest.mark.parametrize("sync", [False, True])
async def test_each_call_of_a_worker_is_a_span_around_what_it_calls(heard: _Heard, *, sync: bool) -> None:
    asked = _engine()
    response = asked.query("?") if sync else await asked.aquery("?")
    root = "ConductorQueryEngine.query" if sync else "ConductorQueryEngine.aquery"
    for name in ("planner.chief", "step.shelf", "step.writer"):
        assert heard.above(heard.named(name))[-1] == root
    assert heard.above(heard.named("Shelf.retrieve"))[0] == "step.shelf"
    assert heard.above(heard.named("Native.achat"))[0] == "step.writer"
    assert heard.above(heard.named("Blocking.stream_chat"))[0] == "planner.chief"
    assert not heard.spans.open_spans
    (found,) = heard.events.of(RetrievalStartEvent)
    assert (found.tags["podium_step"], found.tags["podium_worker"]) == (0, "shelf")
    assert found.tags["podium_run_id"] == response.metadata["run_id"]
    assert heard.named("Native.achat").tags["podium_attempt"] == 1


async def test_the_plan_and_the_steps_are_events(heard: _Heard) -> None:
    """With their spans, outputs and usage, as they happen, between the query's own events."""
    response = await _engine().aquery("?")
    told = [type(event).__name__ for event in heard.events.seen if isinstance(event, _TOLD)]
    assert (told[0], told[-1]) == ("QueryStartEvent", "QueryEndEvent")
    steps = [name for name in told if name.startswith("Step")]
    assert steps == ["StepStartEvent", "StepEndEvent"] * 2
    (plan,) = heard.events.of(PlanReadyEvent)
    assert (plan.planner, plan.plan["steps"]) == ("chief", response.metadata["plan"]["steps"])
    first, second = heard.events.of(StepEndEvent)
    assert (first.worker, first.status, set(first.source_nodes)) == ("shelf", "ok", {"c1", "shared"})
    assert (second.output, second.usage["output_tokens"]) == ("it is written", 12)
    assert [event.span_id for event in heard.events.of(StepStartEvent)] == [first.span_id, second.span_id]
    assert heard.named("step.shelf").id_ == first.span_id


async def test_no_handler_is_shown_a_secret(heard: _Heard) -> None:
    key = "sk-which1no2handler3shows4"
    finder = ScriptedWorker("finder", f"found {key}")
    writer = ScriptedWorker("writer", f"the key is {key}")
    plan = Plan((Step(0, f"Look up {key}."), Step(1, "Say it.", (0,))))
    asked = ConductorQueryEngine(Conductor(FixedPlanner(plan), [finder, writer]), streaming=True)
    response: Any = await asked.aquery(f"What is {key}?")
    text = "".join([piece async for piece in response.async_response_gen()])
    assert text == f"the key is {key}"
    told = [repr(event) for event in heard.events.seen if type(event).__module__ == PlanReadyEvent.__module__]
    assert any("the key is sk-[secret]" in each for each in told)
    assert [each for each in told if key in each] == []
