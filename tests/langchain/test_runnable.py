"""A conductor as a Runnable: asked in every way LangChain has, alone and in chains."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from servers.chat_server import Call, ChatServer, Reply, says

from langchain_podium import ConductorRunnable, as_planner, as_worker
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, PlanForbidden, QueryError, RunFailed
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy, Rule
from podium.types import Message
from podium.workers import Request, Worker

pytestmark = pytest.mark.anyio
Make = Callable[..., Any]
ANSWER = "Forty-two it is."
PLAN = Plan((Step(0, "Look it up."), Step(1, "Write it.", (0,))))


def _team(call: Call) -> Reply:
    conducts = "You are the conductor" in json.dumps(call.body["messages"])
    steps = [
        '{"worker": 0, "subtask": "Look it up.", "access": []}',
        '{"worker": 1, "subtask": "Write it.", "access": [0]}',
    ]
    return says(call, "\n".join(steps) + "\n" if conducts else ANSWER)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Serve from a thread, so that code which blocks this loop can be answered."""
    with ChatServer(_team).in_thread() as served:
        yield served


@pytest.fixture
def conductor(server: ChatServer, openai: Make) -> Conductor:
    workers = [as_worker(openai(server.url, name)) for name in ("reader", "writer")]
    return Conductor(as_planner(openai(server.url, "boss")), workers)


def _scripted(*workers: Worker, plan: Plan = PLAN, **options: Any) -> Conductor:
    default = (ScriptedWorker("reader", "read"), ScriptedWorker("writer", ANSWER, piece=4))
    return Conductor(FixedPlanner(plan), workers or default, **options)


@pytest.mark.parametrize(
    "asked",
    [
        "What is it?",
        HumanMessage("What is it?"),
        [("system", "Be brief."), ("human", "What is it?")],
        {"input": "What is it?", "chat_history": [("human", "Hi"), ("ai", "Hello")]},
        ChatPromptTemplate([("human", "What is {x}?")]).invoke({"x": "it"}),
    ],
)
async def test_whatever_is_asked_arrives(asked: Any) -> None:
    """Text, messages in all of LangChain's spellings, dicts and prompts are one question."""
    writer = ScriptedWorker("writer", ANSWER)
    runnable = ConductorRunnable(_scripted(ScriptedWorker("reader", "read"), writer))
    assert await runnable.ainvoke(asked) == ANSWER
    assert "What is it?" in writer.requests[0].messages[-1].text


async def test_a_plan_is_carried_out() -> None:
    plan = Plan((Step(1, "Write."),), (Message("user", "What?"),))
    result = await ConductorRunnable(_scripted(), output="result").ainvoke(plan)
    assert [outcome.worker for outcome in result.outcomes] == ["writer"]


async def test_what_is_no_question_is_an_error() -> None:
    writer = ScriptedWorker("writer", ANSWER)
    runnable = ConductorRunnable(_scripted(writer, ScriptedWorker("other", "x")))
    for asked in ({"topic": "it"}, 5, [], [("nobody", "x")], {"question": PLAN}):
        with pytest.raises(QueryError):
            await runnable.ainvoke(asked)
    assert writer.requests == []


async def test_every_way_to_ask_gives_the_answer(conductor: Conductor) -> None:
    """Async and sync, whole, streamed and batched; the sync ways inside this running loop."""
    runnable = ConductorRunnable(conductor)
    assert await runnable.ainvoke("What?") == ANSWER
    assert runnable.invoke("What?") == ANSWER
    pieces = [piece async for piece in runnable.astream("What?")]
    assert ("".join(map(str, pieces)), len(pieces) > 1) == (ANSWER, True)
    pieces = list(runnable.stream("What?"))
    assert ("".join(map(str, pieces)), len(pieces) > 1) == (ANSWER, True)
    assert await runnable.abatch(["a", "b"]) == [ANSWER] * 2
    assert runnable.batch(["a", "b", "c"], {"max_concurrency": 2}) == [ANSWER] * 3
    assert {text for _, text in runnable.batch_as_completed(["a", "b"])} == {ANSWER}


def _fails_first(times: int) -> ScriptedWorker:
    replies = iter(range(100))

    def reply(request: Request) -> Any:
        return RuntimeError("broken") if next(replies) < times else ANSWER

    return ScriptedWorker("writer", reply)


async def test_a_run_without_an_answer_raises_so_that_chains_can_act() -> None:
    """`with_retry` asks again, `with_fallbacks` somebody else, and the error tells what happened."""
    one = Plan((Step(0, "Write."),))
    runnable = ConductorRunnable(_scripted(_fails_first(100), plan=one))
    with pytest.raises(RunFailed, match=r"worker_failed.*broken") as failed:
        await runnable.ainvoke("What?")
    assert failed.value.result.status == "failed"
    with pytest.raises(RunFailed, match="broken"):
        [piece async for piece in runnable.astream("What?")]
    assert await runnable.with_fallbacks([RunnableLambda(lambda _: "plain")]).ainvoke("What?") == "plain"
    again = ConductorRunnable(_scripted(_fails_first(2), plan=one))
    retried = again.with_retry(retry_if_exception_type=(RunFailed,), wait_exponential_jitter=False)
    assert await retried.ainvoke("What?") == ANSWER
    outputs = await runnable.abatch(["a"], return_exceptions=True)
    assert isinstance(outputs[0], RunFailed)


async def test_labels_and_policy_are_each_run_s_own() -> None:
    """They are arguments of the call, and `bind` sets them beforehand."""
    rule = Policy(labels={"secret", "public"}, rules=(Rule("secret", never="writer"),))
    runnable = ConductorRunnable(_scripted())
    assert await runnable.ainvoke(PLAN, labels={"public"}, policy=rule) == ANSWER
    with pytest.raises(PlanForbidden):
        await runnable.bind(labels={"secret"}, policy=rule).ainvoke(PLAN)
    with pytest.raises(PlanForbidden):
        [piece async for piece in runnable.astream(PLAN, labels={"secret"}, policy=rule)]


async def test_a_recorded_run_that_failed_goes_on() -> None:
    """The same id again runs the failed step again, and pays for no other."""
    reader, writer, run_id = ScriptedWorker("reader", "read"), _fails_first(1), uuid4()
    conductor = _scripted(reader, writer, journal=MemoryJournal(), retry=Retry(attempts=1))
    runnable = ConductorRunnable(conductor)
    with pytest.raises(RunFailed, match="broken"):
        await runnable.ainvoke("What?", {"run_id": run_id})
    pieces = [str(piece) async for piece in runnable.astream("What?", {"run_id": run_id})]
    assert "".join(pieces) == ANSWER
    assert await runnable.ainvoke("What?", {"run_id": run_id}) == ANSWER
    assert (len(reader.requests), len(writer.requests)) == (1, 2)


async def test_as_a_tool_it_takes_one_text() -> None:
    writer = ScriptedWorker("writer", ANSWER)
    runnable = ConductorRunnable(_scripted(ScriptedWorker("reader", "read"), writer))
    tool = runnable.as_tool(name="team", description="Answers.")
    assert (tool.name, tool.description, await tool.ainvoke("What is it?")) == ("team", "Answers.", ANSWER)
    assert "What is it?" in writer.requests[0].messages[-1].text
    assert runnable.as_tool().description == "Plans a task and has a team carry it out."
    described = runnable.as_tool(arg_types={"question": str})
    assert list(described.args) == ["question"]
    assert await described.ainvoke({"question": "What?"}) == ANSWER


async def test_wrong_arguments_are_told_with_those_that_there_are() -> None:
    """A misspelled option is not ignored; letters of a text would be labels that no rule knows."""
    with pytest.raises(TypeError, match="does not accept patial: it accepts output, partial, name"):
        ConductorRunnable(_scripted(), patial="raise")
    with pytest.raises(TypeError, match="does not accept bogus: it accepts labels, policy"):
        await ConductorRunnable(_scripted()).ainvoke("q", bogus=1)
    with pytest.raises(ConfigError, match="as_planner"):
        as_planner(object())
    with pytest.raises(ConfigError, match="labels are 'confidential': give a set of texts"):
        await ConductorRunnable(_scripted()).bind(labels="confidential").ainvoke("q")
