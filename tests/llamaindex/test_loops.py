"""LlamaIndex's faces in many event loops and threads, with the clients that `OpenAILike` makes."""

from collections.abc import Callable

import pytest
from contracts.loops_contract import MODES, RUNS, Face, Mode, check_loops
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from servers.chat_server import MODEL

from llama_index_podium import ConductorLLM, ConductorQueryEngine, as_worker
from podium.execution import Retry


def llm(url: str) -> OpenAILike:
    """Return a model, as the documentation makes it."""
    return OpenAILike(model=MODEL, api_base=url, api_key="sk-loopback-key", is_chat_model=True, max_retries=0)


def query_engine(url: str) -> Face:
    """Return a conductor as a query engine."""
    engine = ConductorQueryEngine(
        workers=[as_worker(llm(url), name="worker")],
        planner=llm(url),
        retry=Retry(attempts=1),
        partial="raise",
    )

    async def ask() -> str:
        return str(await engine.aquery("Why?"))

    return Face(ask, lambda: str(engine.query("Why?")))


def model(url: str) -> Face:
    """Return a conductor as an LLM."""
    asked = ConductorLLM(
        workers=[as_worker(llm(url), name="worker")],
        planner=llm(url),
        retry=Retry(attempts=1),
        partial="raise",
    )
    question = [ChatMessage("Why?")]

    async def ask() -> str:
        return str((await asked.achat(question)).message.content)

    return Face(ask, lambda: str(asked.chat(question).message.content))


@pytest.mark.long
@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("make", [query_engine, model])
def test_no_call_is_lost_whatever_loop_it_is_made_in(
    make: Callable[[str], Face], mode: Mode, runs: int
) -> None:
    """Every answer is whole, and the server got each call once."""
    check_loops(make, mode, runs)
