"""Workers that are something of LlamaIndex's keep to what every worker keeps to."""

from typing import Any

import anyio
import pytest
from contracts.known_prices import MODEL, OPENAI, check_planner, check_prices
from contracts.worker_contract import WorkerContract
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.llms.openai import OpenAI, OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from llamaindex.library import Shelf
from llamaindex.speaking import Native

from llama_index_podium import as_planner, as_worker
from podium.workers import Card, Worker


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


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
@pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning")
class TestAgent(_Whole):
    def make(self, *, slow: bool) -> Any:
        async def think(prompt: str) -> str:
            return f"Thought: I can answer.\nAnswer: {prompt.splitlines()[-1]}"

        return ReActAgent(name="thinker", llm=Native(_hang if slow else think))


class Said(StartEvent):
    """What to say."""

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
