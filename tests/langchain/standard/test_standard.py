"""LangChain's own suites for chat models, over servers on loopback: local pools, and a hosted conductor.

What is not as the suites have it by default:

- A conductor has no `api_key`: each worker has its own. One that is given has its own `Retry` in place of
  `max_retries`, and a hosted one retries on its server; one that is made of parts takes `max_retries`.
- No call can override the model of a local pool, whose models are its workers.
- Where workers are chat models of LangChain's, only the unit suite runs: `test_structured_output` would
  find that more than one chat model was started, because each worker's call is a run of its own.
- `test_serdes` skips itself: a conductor holds connections and code.
- Tests of pictures, sound and files load files from the internet, and stay switched off.
- `test_stream_time` replays recorded traffic, of which there is none; `test_init_time` asserts no time.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from servers.capable import capable
from servers.chat_server import ChatServer
from servers.openai_models import openai

from langchain_podium.chat_models import ChatPodium
from podium import ChatPlanner, ChatWorker, Conductor, Endpoint

pytestmark = pytest.mark.anyio  # for the suites' coroutines, which count on another plugin's global mode

WORKERS = ("finder", "writer")
_URL: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def _server() -> Iterator[None]:
    with ChatServer(capable).in_thread() as server:
        _URL.append(server.url)
        yield
        _URL.clear()


def endpoint() -> Endpoint:
    return Endpoint(_URL[-1], api_key="key", provider="openai")


@pytest.fixture
def benchmark() -> Callable[[Callable[[], None]], None]:
    """Return a function that calls what another plugin would measure."""
    return lambda measured: measured()


@pytest.fixture
def snapshot() -> None:
    """Return nothing: `test_serdes`, which skips itself, does not compare with it."""


@cache
def model_of(url: str, name: str) -> ChatOpenAI:
    """Return a model of the server, made once: the time of that is not what is measured."""
    return openai(url, name)


class Suite:
    chat_model_class = ChatPodium
    supports_model_override = False

    @pytest.mark.xfail(reason="there is no recorded traffic", run=False)
    def test_stream_time(self) -> None:
        """Replay recorded traffic."""


class Local(Suite):
    @property
    def chat_model_params(self) -> dict[str, Any]:
        server = endpoint()
        planner = ChatPlanner(ChatWorker("planner", endpoint=server))
        pool = [ChatWorker(name, endpoint=server) for name in WORKERS]
        return {"conductor": Conductor(planner, pool)}


class Parts(Suite):
    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"planner": model_of(_URL[-1], "planner"), "workers": [model_of(_URL[-1], n) for n in WORKERS]}


class Hosted(Suite):
    """A conductor behind an API, which speaks chat completions."""

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"conductor": Conductor.of(ChatWorker("fugu", endpoint=endpoint()))}


class TestLocalUnit(Local, ChatModelUnitTests):
    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        return _without(super().standard_chat_model_params, "api_key", "max_retries")


class TestPartsUnit(Parts, ChatModelUnitTests):
    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        return _without(super().standard_chat_model_params, "api_key")


class TestLocal(Local, ChatModelIntegrationTests):
    """The integration suite over a local pool."""


@pytest.mark.long
class TestHosted(Hosted, ChatModelIntegrationTests):
    """The integration suite over a hosted conductor."""


def _without(params: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in names}
