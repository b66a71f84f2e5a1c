"""Actions in LlamaIndex: its tools and agents as workers, in each of its faces."""

from typing import Any

import pytest
from contracts.actions_contract import ActionHost, ActionsContract, Refund
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from servers.chat_server import MODEL

from llama_index_podium import ConductorLLM, ConductorQueryEngine, ConductorRetriever, as_worker
from llama_index_podium.tools import ConductorToolSpec
from podium import Conductor
from podium.workers import FREE, Worker

pytestmark = [
    # agents themselves use what pydantic and workflows have deprecated
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
    pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning"),
]


class Engine(ActionHost):
    """A query engine."""

    def tool(self, refund: Refund) -> Worker:
        """Return a function tool."""
        return as_worker(FunctionTool.from_defaults(refund), price=FREE)

    def agent(self, refund: Refund | None, url: str) -> Worker:
        """Return a function agent."""
        llm = OpenAILike(
            model=MODEL, api_base=url, api_key="k", is_chat_model=True, is_function_calling_model=True,
            max_retries=0,
        )  # fmt: skip
        tools: Any = [] if refund is None else [refund]
        return as_worker(FunctionAgent(name="agent", description="Refunds.", llm=llm, tools=tools))

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Query it."""
        response: Any = await ConductorQueryEngine(conductor).aquery("Refund it.")
        return response.metadata["status"], response.response


class Model(Engine):
    """An LLM."""

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Chat with it."""
        response: Any = await ConductorLLM(conductor).achat([ChatMessage("Refund it.")])
        return response.raw["podium"]["status"], response.message.content


class Retriever(Engine):
    """A retriever, whose first node is the answer."""

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Retrieve."""
        (node,) = await ConductorRetriever(conductor, answer=True).aretrieve("Refund it.")
        return node.metadata["podium_run"]["status"], node.text


class Tool(Engine):
    """A tool of an agent."""

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Call it."""
        output = await ConductorToolSpec(conductor).to_tool_list()[0].acall(question="Refund it.")
        return output.raw_output.metadata["status"], output.content


class TestActions(ActionsContract):
    """The contract."""

    @pytest.fixture(params=[Engine, Model, Retriever, Tool])
    def host(self, request: pytest.FixtureRequest) -> ActionHost:
        """Each face."""
        host: ActionHost = request.param()
        return host
