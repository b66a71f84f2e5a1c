"""LlamaIndex's client of OpenAI-compatible servers as worker and planner, against a loopback server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest
from contracts.odd_answers import ODD_ANSWERS, OddAnswer, check, check_wrong_url
from contracts.worker_contract import WorkerContract
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llamaindex.conftest import Make
from llamaindex.library import index_of
from servers.chat_server import CUT, STALL, Call, ChatServer, Reply, chunk, events, says, whole

from llama_index_podium import ConductorLLM, ConductorQueryEngine, as_worker
from podium import Conductor, Plan, Step
from podium.aio import run_sync
from podium.errors import WorkerBroken, WorkerRefused, WorkerUnavailable
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


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (lambda call: whole({"error": {"message": "slow down"}}, status=429), WorkerUnavailable.code),
        (lambda call: whole({"error": {"message": "no such key"}}, status=401), WorkerRefused.code),
        (lambda call: events(chunk({"content": "half"}), CUT), WorkerBroken.code),
    ],
)
async def test_what_its_client_raises_is_said_in_podiums_errors(llm: Make, reply: Any, code: str) -> None:
    """So that what may be tried again is, and half an answer is none."""
    outcome = await _asked(llm, reply, stream=True)
    assert (outcome.status, outcome.problem.code) == ("failed", code)
    assert "sk-loopback-key" not in outcome.problem.message
    assert "no key was sent" not in outcome.problem.message


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


def test_code_that_is_not_async_can_ask_again_over_the_same_connection() -> None:
    """A client keeps its connection, which lives in one event loop: all such calls run in one."""
    plan = FixedPlanner(write_plan(Plan((Step(0, "x"),)), "rows"))
    with ChatServer(lambda call: says(call, "fine")).in_thread() as server:
        client = httpx.AsyncClient()
        model = OpenAILike(
            model="writer",
            api_base=server.url,
            api_key="k",
            is_chat_model=True,
            max_retries=0,
            async_http_client=client,
        )
        engine = ConductorQueryEngine(workers=[model], planner=plan, retry=Retry(attempts=1))
        streaming = ConductorQueryEngine(engine.conductor, streaming=True)
        team = ConductorLLM(engine.conductor)
        said = [str(engine.query("?")), str(engine.query("?")), team.complete("?").text]
        assert server.connections == 1
        said.append("".join(streaming.query("?").response_gen))
        assert said == ["fine"] * 4
        run_sync(client.aclose)


@pytest.mark.parametrize(("odd", "stream"), [(odd, at % 2 == 0) for at, odd in enumerate(ODD_ANSWERS)])
async def test_an_answer_that_is_none_has_its_own_code(llm: Make, odd: OddAnswer, *, stream: bool) -> None:
    await check(lambda url: as_worker(llm(url)), odd, stream=stream)


async def test_a_url_of_another_server_is_told(llm: Make) -> None:
    await check_wrong_url(lambda url: as_worker(llm(url)), stream=True)
