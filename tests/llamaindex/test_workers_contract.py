"""Workers that are something of LlamaIndex's keep to what every worker keeps to."""

from typing import Any

import anyio
import pytest
from contracts.worker_contract import WorkerContract
from llama_index.core.agent.workflow import AgentWorkflow, ReActAgent
from llama_index.core.chat_engine import CondensePlusContextChatEngine, SimpleChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llamaindex.library import Shelf
from llamaindex.speaking import Native

from llama_index_podium import as_worker
from podium.workers import Worker


async def echo(prompt: str) -> str:
    """Say all that was asked."""
    return prompt


async def hang(prompt: str) -> str:
    """Say nothing."""
    await anyio.sleep_forever()
    raise AssertionError("unreachable")


class Mirror(Shelf):
    """Finds the question itself, or nothing for ever."""

    def __init__(self, *, slow: bool) -> None:
        super().__init__("contracts")
        self.slow = slow

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self.slow:
            await anyio.sleep_forever()
        return [NodeWithScore(node=TextNode(text=query_bundle.query_str))]


class Whole(WorkerContract):
    """The suite; `make` returns the object that is the worker."""

    def make(self, *, slow: bool) -> Any:
        """Return what answers with the question, or not at all."""
        raise NotImplementedError

    @pytest.fixture
    def worker(self) -> Worker:
        """Answers."""
        return as_worker(self.make(slow=False))

    @pytest.fixture
    def slow_worker(self) -> Worker:
        """Does not."""
        return as_worker(self.make(slow=True))


class TestRetriever(Whole):
    """A retriever."""

    def make(self, *, slow: bool) -> Any:
        """Return it."""
        return Mirror(slow=slow)


class TestQueryEngine(Whole):
    """A query engine."""

    def make(self, *, slow: bool) -> Any:
        """Return it."""
        return RetrieverQueryEngine(Mirror(slow=slow), get_response_synthesizer(llm=Native(echo)))


class TestChatEngine(Whole):
    """A chat engine without nodes."""

    def make(self, *, slow: bool) -> Any:
        """Return it."""
        return SimpleChatEngine.from_defaults(llm=Native(hang if slow else echo))


class TestContextChatEngine(Whole):
    """A chat engine with nodes, whose model is slow."""

    def make(self, *, slow: bool) -> Any:
        """Return it."""
        llm = Native(hang if slow else echo)
        return CondensePlusContextChatEngine.from_defaults(retriever=Mirror(slow=False), llm=llm)


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
@pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning")
class TestAgent(Whole):
    """An agent."""

    def make(self, *, slow: bool) -> Any:
        """Return it."""

        async def think(prompt: str) -> str:
            return f"Thought: I can answer.\nAnswer: {prompt.splitlines()[-1]}"

        return ReActAgent(name="thinker", llm=Native(hang if slow else think))


class TestTeam(TestAgent):
    """A team of one agent."""

    def make(self, *, slow: bool) -> Any:
        """Return it."""
        return AgentWorkflow(agents=[super().make(slow=slow)])


class Said(StartEvent):
    """What to say."""

    text: str


class TestWorkflow(Whole):
    """A workflow."""

    def make(self, *, slow: bool) -> Any:
        """Return it."""

        class Echo(Workflow):
            @step
            async def say(self, event: Said) -> StopEvent:
                return StopEvent(result=await (hang if slow else echo)(event.text))

        return Echo(timeout=None)
