"""LangChain's `ChatOpenAI` under LangChain's own integration suite, through `podium serve`."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from servers.podium_server import Served

pytestmark = [
    pytest.mark.long,
    pytest.mark.anyio,  # for the suite's coroutines
    # The client warns that it uses tools for schemas of Pydantic 1, and when it serializes a parsed answer.
    pytest.mark.filterwarnings("ignore:Received a Pydantic BaseModel V1 schema:UserWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]
_URL: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def _server(team: Served) -> Iterator[None]:
    _URL.append(team.url)
    yield
    _URL.clear()


class Suite(ChatModelIntegrationTests):
    """What both suites share. The suite loads pictures, sound and files from the internet: not tested."""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        client = httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0))  # each test has a loop
        server = {"base_url": _URL[-1], "api_key": "none", "http_async_client": client}
        return {**server, "model": "team", "stream_usage": True}

    @property
    def model_override_value(self) -> str:
        return "one"

    @pytest.mark.xfail(reason="there is no recorded traffic", run=False)
    def test_stream_time(self) -> None:
        """Replay recorded traffic."""


class TestCompletions(Suite):
    """Over chat completions."""


class TestResponses(Suite):
    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {**super().chat_model_params, "use_responses_api": True}
