"""Workers of LlamaIndex's keep to what every worker keeps to, also against a loopback server."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from contracts.known_prices import MODEL, OPENAI, check_planner, check_prices
from contracts.odd_answers import ODD_ANSWERS, WRONG_URL, Case, check_case
from contracts.worker_contract import WorkerContract
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.llms.openai import OpenAI, OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from llamaindex.conftest import Make
from llamaindex.library import AGENTS, Shelf, index_of
from llamaindex.speaking import Native
from servers.chat_server import STALL, Call, ChatServer, Reply, says

from llama_index_podium import as_planner, as_worker
from podium import Conductor, Plan, Step
from podium.planners import FixedPlanner
from podium.workers import Card, Worker

pytestmark = pytest.mark.anyio


async def _echo(prompt: str) -> str:
    return prompt


async def _hang(prompt: str) -> str:
    await anyio.sleep_forever()
    raise AssertionError("unreachable")


class _Mirror(Shelf):
    def __init__(self, *, slow: bool) -> None:
        super().__init__("contracts")
        self.slow = slow

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self.slow:
            await anyio.sleep_forever()
        return [NodeWithScore(node=TextNode(text=query_bundle.query_str))]


class _Whole(WorkerContract):
    def make(self, *, slow: bool) -> Any:
        raise NotImplementedError

    @pytest.fixture
    def worker(self) -> Worker:
        return as_worker(self.make(slow=False))

    @pytest.fixture
    def slow_worker(self) -> Worker:
        return as_worker(self.make(slow=True))


class TestRetriever(_Whole):
    def make(self, *, slow: bool) -> Any:
        return _Mirror(slow=slow)


class TestQueryEngine(_Whole):
    def make(self, *, slow: bool) -> Any:
        return RetrieverQueryEngine(_Mirror(slow=slow), get_response_synthesizer(llm=Native(_echo)))


@AGENTS
class TestAgent(_Whole):
    def make(self, *, slow: bool) -> Any:
        async def think(prompt: str) -> str:
            return f"Thought: I can answer.\nAnswer: {prompt.splitlines()[-1]}"

        return ReActAgent(name="thinker", llm=Native(_hang if slow else think))


class Said(StartEvent):
    text: str


class TestWorkflow(_Whole):
    def make(self, *, slow: bool) -> Any:
        class Echo(Workflow):
            @step
            async def say(self, event: Said) -> StopEvent:
                return StopEvent(result=await (_hang if slow else _echo)(event.text))

        return Echo(timeout=None)


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_an_llm_has_the_price_of_its_endpoint() -> None:
    """As a worker and as a planner; its own name alone says nothing."""

    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        return as_worker(OpenAI(model=MODEL, api_base=url, api_key="k"), card=card)

    check_prices(make)
    check_planner(as_planner(OpenAI(model=MODEL, api_key="k")))
    priced = as_worker(OpenAI(model=MODEL, api_key="k")).card
    assert as_worker(OpenAIResponses(model=MODEL, api_key="k")).card.price == priced.price
    like = as_worker(OpenAILike(model=MODEL, api_base=OPENAI, api_key="k")).card
    assert (like.price, like.price_source) == (priced.price, priced.price_source)
    assert like.context_window_source == priced.price_source


def _shown(call: Call) -> str:
    return "\n".join(str(message["content"]) for message in call.body["messages"])


class TestOpenAILike(WorkerContract):
    @pytest.fixture
    async def worker(self, llm: Make) -> AsyncIterator[Worker]:
        async with ChatServer(lambda call: says(call, _shown(call), usage=None)) as server:
            yield as_worker(llm(server.url, max_tokens=200))

    @pytest.fixture
    async def slow_worker(self, llm: Make) -> AsyncIterator[Worker]:
        async with ChatServer(lambda call: Reply([STALL])) as server:
            yield as_worker(llm(server.url))


@AGENTS
@pytest.mark.parametrize(
    ("kind", "case", "stream"),
    [
        *(("llm", case, at % 2 == 0) for at, case in enumerate((*ODD_ANSWERS, None, WRONG_URL))),
        *(("query engine", case, False) for case in ("stop", "length", "content_filter")),
        ("streaming query engine", None, False),
        ("team", None, True),
    ],
)
async def test_how_an_answer_ends(llm: Make, kind: str, case: Case, *, stream: bool) -> None:
    """LlamaIndex returns what there is; the run is as with an LLM."""

    def make(url: str) -> Worker:
        model = llm(url, context_window=4000)
        if kind == "llm":
            return as_worker(model)
        if kind == "team":
            thing: Any = AgentWorkflow(agents=[FunctionAgent(name="writer", llm=model)])
        else:
            thing = index_of("contracts").as_query_engine(llm=model, streaming="streaming" in kind)
        return as_worker(thing, name="half", description="Answers.")

    await check_case(make, case, stream=stream)


async def test_usage_and_end_are_the_servers(llm: Make) -> None:
    """A stream is asked to report; also of a text that was cut at the token limit."""
    async with ChatServer(lambda call: says(call, "one two", finish_reason="length")) as server:
        conductor = Conductor(FixedPlanner("x"), [as_worker(llm(server.url))])
        result = await conductor.run(Plan((Step(0, "Go."),)), on_event=lambda event: None)
    (outcome,) = result.outcomes
    assert (outcome.text, outcome.finish_reason) == ("one two", "length")
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (211, 7)
