"""LlamaIndex's client of OpenAI-compatible servers as worker and planner, against a loopback server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from contracts.odd_answers import ODD_ANSWERS, OddAnswer, check, check_wrong_url
from contracts.worker_contract import WorkerContract
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llamaindex.conftest import Make
from llamaindex.library import index_of
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says

from llama_index_podium import ConductorQueryEngine, as_worker
from podium import Conductor, Plan, Step
from podium.execution import Retry
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.workers import Worker

pytestmark = pytest.mark.anyio


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


async def test_a_cut_answer_of_a_query_engine_is_partial(llm: Make) -> None:
    async def problem_of(finish: str) -> tuple[str, str | None]:
        async with ChatServer(lambda call: says(call, "half an ans", finish_reason=finish)) as server:
            model = llm(server.url, context_window=4000)
            engine = index_of("contracts").as_query_engine(llm=model)
            worker = as_worker(engine, name="contracts")
            result = await Conductor(FixedPlanner(Plan((Step(0, "Acme?"),))), [worker]).run("Acme?")
        problem = result.outcomes[0].problem
        return result.status, None if problem is None else problem.code

    assert await problem_of("stop") == ("ok", None)
    assert await problem_of("length") == ("partial", "cut")
    assert await problem_of("content_filter") == ("failed", "answer_refused")


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")  # of agents themselves
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
@pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning")
@pytest.mark.parametrize(
    ("make", "stream"),
    [
        (lambda model: AgentWorkflow(agents=[FunctionAgent(name="writer", llm=model)]), True),
        (lambda model: index_of("contracts").as_query_engine(llm=model, streaming=True), False),
    ],
    ids=["team", "query engine"],
)
async def test_a_stream_that_is_broken_off_is_no_answer(llm: Make, make: Any, *, stream: bool) -> None:
    """LlamaIndex returns what there is; the step fails, as with an LLM."""

    def cut(call: Call) -> Reply:
        if call.body.get("stream"):
            return events(chunk({"content": "half an ans"}), done=False)
        return says(call, "half an ans", finish_reason=None)

    async with ChatServer(cut) as server:
        worker = as_worker(make(llm(server.url, context_window=4000)), name="half", description="Answers.")
        conductor = Conductor(FixedPlanner(Plan((Step(0, "Acme?"),))), [worker], retry=Retry(attempts=1))
        result = await conductor.run("Acme?", on_event=(lambda event: None) if stream else None)
    problem = result.outcomes[0].problem
    assert (result.status, problem.code) == ("failed", "worker_broken")
    assert "no finish_reason" in problem.message


async def _asked(llm: Make, reply: Any, *, stream: bool = False) -> Any:
    """Return the outcome of one step whose model's server replies so."""
    async with ChatServer(reply) as server:
        conductor = Conductor(FixedPlanner("x"), [as_worker(llm(server.url))], retry=Retry(attempts=1))
        listen = (lambda event: None) if stream else None
        return (await conductor.run(Plan((Step(0, "Go."),)), on_event=listen)).outcomes[0]


async def test_usage_and_end_are_the_servers(llm: Make) -> None:
    """A stream is asked to report; also of a text that was cut at the token limit."""
    outcome = await _asked(llm, lambda call: says(call, "one two", finish_reason="length"), stream=True)
    assert (outcome.text, outcome.finish_reason) == ("one two", "length")
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (211, 7)


async def test_a_cancel_closes_the_request(llm: Make) -> None:
    async with ChatServer(lambda call: Reply([STALL])) as server:
        engine = ConductorQueryEngine(
            workers=[llm(server.url)], planner=FixedPlanner(write_plan(Plan((Step(0, "x"),)), "rows"))
        )
        task = asyncio.create_task(engine.aquery("?"))
        with anyio.fail_after(10):
            while not server.calls:  # noqa: ASYNC110 - the server announces nothing
                await anyio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.calls[0].hung_up.wait()


@pytest.mark.parametrize(("odd", "stream"), [(odd, at % 2 == 0) for at, odd in enumerate(ODD_ANSWERS)])
async def test_an_answer_that_is_none_has_its_own_code(llm: Make, odd: OddAnswer, *, stream: bool) -> None:
    await check(lambda url: as_worker(llm(url)), odd, stream=stream)


async def test_a_url_of_another_server_is_told(llm: Make) -> None:
    await check_wrong_url(lambda url: as_worker(llm(url)), stream=True)
