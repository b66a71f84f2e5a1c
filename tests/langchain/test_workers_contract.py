"""What LangChain's things are made into keeps the contract of workers."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from contracts.known_prices import MODEL, OPENAI, check_planner, check_prices
from contracts.worker_contract import WorkerContract
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import SecretStr
from servers.chat_server import STALL, Call, ChatServer, Reply, says

from langchain_podium import as_planner, as_worker
from podium import Price
from podium.workers import Card, ChatWorker, Endpoint, Worker

Make = Callable[..., Any]
PRICE = Price(input=1.0, output=5.0)


def _echo(call: Call) -> Reply:
    return says(call, f"You asked: {call.body['messages'][-1]['content']}")


def _graph_of(node: Callable[[MessagesState], Any]) -> Any:
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()


class TestChatModel(WorkerContract):
    @pytest.fixture
    async def worker(self, openai: Make) -> AsyncIterator[Worker]:
        async with ChatServer(_echo) as server:
            down = openai("http://127.0.0.1:9/v1")
            yield as_worker(down.with_fallbacks([openai(server.url)]), price=PRICE)

    @pytest.fixture
    async def slow_worker(self, openai: Make) -> AsyncIterator[Worker]:
        async with ChatServer(lambda call: Reply((STALL,))) as server:
            yield as_worker(openai(server.url).with_retry())


class TestGraph(WorkerContract):
    @pytest.fixture
    async def worker(self, openai: Make) -> AsyncIterator[Worker]:
        async with ChatServer(_echo) as server:
            model = openai(server.url)

            async def ask(state: MessagesState) -> dict[str, Any]:
                return {"messages": [await model.ainvoke(state["messages"])]}

            yield as_worker(_graph_of(ask), name="agent", price=PRICE)

    @pytest.fixture
    def slow_worker(self) -> Worker:
        async def wait(state: MessagesState) -> dict[str, Any]:
            await anyio.sleep_forever()
            return {"messages": [AIMessage("late")]}

        return as_worker(_graph_of(wait), name="agent")


class _Library(BaseRetriever):
    """Finds one document about anything."""

    waits: bool = False

    def _get_relevant_documents(self, query: str, **options: Any) -> list[Document]:
        return [Document(f"All about {query}", metadata={"source": "a.md"})]

    async def _aget_relevant_documents(self, query: str, **options: Any) -> list[Document]:
        if self.waits:
            await anyio.sleep_forever()
        return self._get_relevant_documents(query)


class TestRetriever(WorkerContract):
    @pytest.fixture
    def worker(self) -> Worker:
        return as_worker(_Library())

    @pytest.fixture
    def slow_worker(self) -> Worker:
        return as_worker(_Library(waits=True))


KEY = SecretStr("k")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def _model(url: str | None = None) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=url, api_key=KEY)


def test_a_chat_model_has_the_price_of_its_endpoint() -> None:
    """As a worker and as a planner; its own name alone says nothing."""

    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        return as_worker(_model(url), card=card)

    check_prices(make)
    check_planner(as_planner(_model()))


def test_the_model_that_is_called_is_looked_up() -> None:
    """A bound name counts; a model that another may stand in for has no price. On Azure, the host counts."""

    def price(model: Any) -> Price | None:
        return as_worker(model).card.price

    assert price(_model().bind(model="gpt-5-mini")) == _known("gpt-5-mini", OPENAI)
    assert price(_model().with_retry()) == price(_model())
    assert price(_model().with_fallbacks([_model()])) is None
    assert price(_model().configurable_fields(model_name=ConfigurableField(id="model"))) is None
    azure: Any = {"azure_endpoint": "https://mine.openai.azure.com", "azure_deployment": "d"}
    mine = AzureChatOpenAI(api_version="2025-01-01", api_key=KEY, model=MODEL, **azure)
    assert price(mine) == _known(MODEL, azure["azure_endpoint"])


def _known(model: str, url: str) -> Price | None:
    return ChatWorker(model, endpoint=Endpoint(url)).card.price
