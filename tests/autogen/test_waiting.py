"""Runs that wait for somebody, were broken off, or have an id; and tools of the host within a step."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest
from agent_framework import (
    Agent,
    AgentSession,
    Content,
    InMemoryCheckpointStorage,
    Message,
    Workflow,
    WorkflowBuilder,
    tool,
)
from autogen.scripts import calling
from autogen.speaking import FrameworkServer, ModelServer
from autogen_agentchat.messages import HandoffMessage
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage
from autogen_core.tools import FunctionTool
from contracts.adapter_contract import planner_of
from contracts.conversation_contract import ConversationContract
from contracts.waiting_contract import QUESTION, Ask, check_continued, check_waiting
from servers.chat_server import Call, Reply

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, ConductorTeam, as_worker
from autogen_podium.agent_framework import (
    ConductorAgent as FrameworkConductor,
    ConductorChatClient,
    as_worker as framework_worker,
)
from podium import Card, Conductor, FunctionWorker, ScriptedWorker
from podium.errors import ConfigError
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import PersonWorker

pytestmark = pytest.mark.anyio


async def client(conductor: Conductor, run_id: str | None = None) -> object:
    model = ConductorChatCompletionClient(conductor, run_id=run_id)
    return (await model.create([UserMessage(content=QUESTION, source="user")])).content


def in_session() -> Ask:
    session = AgentSession()

    async def ask(conductor: Conductor) -> str:
        return (await FrameworkConductor(conductor, name="lead").run(QUESTION, session=session)).text

    return ask


def in_session_of_client() -> Ask:
    """Return what asks a chat client of Agent Framework's, as the client of an agent with a session."""
    session = AgentSession()

    async def ask(conductor: Conductor) -> str:
        return (await Agent(ConductorChatClient(conductor), name="lead").run(QUESTION, session=session)).text

    return ask


def of_one(make: Callable[[Conductor], Any], *, loads: bool = False) -> Ask:
    """Return what asks one agent or team of AutoGen's, or, with `loads`, a new one with its state."""
    made: list[Any] = []

    async def ask(conductor: Conductor) -> str:
        if made and loads:
            state = json.loads(json.dumps(await made[0].save_state()))
            made[0] = make(conductor)
            await made[0].load_state(state)
        made[:] = made or [make(conductor)]
        said: str = (await made[0].run(task=QUESTION)).messages[-1].to_text()
        return said

    return ask


def lead(conductor: Conductor) -> ConductorAgent:
    return ConductorAgent("lead", conductor)


SESSIONS = pytest.mark.parametrize(
    "make",
    [
        in_session,
        in_session_of_client,
        lambda: of_one(lead),
        lambda: of_one(lead, loads=True),
        lambda: of_one(ConductorTeam, loads=True),
    ],
    ids=["session", "client", "agent", "loaded agent", "loaded team"],
)


async def test_a_model_client_raises_what_waits() -> None:
    """It has no words for a question: its error has the run, which the conductor decides and continues."""
    await check_waiting(client)
    await check_waiting(lambda conductor: client(conductor, "monday"), is_named=True)


def asking(what: Any = "plans", journal: MemoryJournal | None = None) -> tuple[dict[str, Any], list[str]]:
    """Return the parts of a conductor whose plan or action, and question, need a person; and what is done."""
    done = list[str]()
    plan = planner_of((2, "Which colour?", ()), (1, "Refund it.", ()), (0, "Write.", (0, 1)))
    refund = FunctionWorker(
        lambda step: done.append(step.subtask) or "refunded", card=Card(name="refund"), acts=True
    )
    writer = FunctionWorker(lambda step: step.visible[0].output, card=Card(name="writer"))
    workers = [writer, refund, PersonWorker("boss", choices=["red", "blue"])]
    policy = Policy(approve="later", ask=what)
    return {"planner": plan, "workers": workers, "policy": policy, "journal": journal}, done


def says(text: str) -> HandoffMessage:
    return HandoffMessage(content=text, source="user", target="lead")


PLANS = (
    ["perhaps", "Yes.", "green", "blue"],
    ["May this plan run?", "'perhaps' is neither yes nor no", "Which colour?", "green", "blue"],
)


@pytest.mark.parametrize(
    ("kind", "what", "said", "told"),
    [
        (ConductorTeam, "plans", *PLANS),
        (ConductorAgent, "actions", ["blue", "yes"], ["Which", "And next:\nMay refund do this?", "blue"]),
    ],
)
async def test_runs_ask_the_user_by_handoffs(kind: Any, what: str, said: list[str], told: list[str]) -> None:
    """By AutoGen: one question after the other, in a new object with its state; a token is on one message."""
    parts, done = asking(what, MemoryJournal())
    host, tokens = kind(name="lead", **parts), 0
    for asked, answer in zip(["What?", *map(says, said)], told, strict=True):
        state = json.loads(json.dumps(await host.save_state()))
        host = kind(name="lead", **parts)
        await host.load_state(state)
        result = await host.run(task=asked)
        assert answer in result.messages[-1].to_text()
        tokens += sum(m.models_usage.completion_tokens for m in result.messages if m.models_usage is not None)
    assert done == ["Refund it."]
    assert tokens == json.loads(result.messages[-1].metadata["podium_usage"])["completion_tokens"]


async def test_nobody_else_decides() -> None:
    """Not the text of a user, which may be a model's that calls the agent as a tool; not another agent."""
    parts, done = asking()
    lead = ConductorAgent("lead", **parts)
    await lead.run(task="What?")
    for said in ("yes", HandoffMessage(content="yes", source="critic", target="lead")):
        last = (await lead.run(task=said)).messages[-1]
        assert last.content.startswith("May this plan run?")
    assert not done


def answered(contents: list[Content]) -> Message:
    approvals = [each.type == "function_approval_request" for each in contents]
    answers = [
        each.to_function_approval_response(approved=True)
        if is_approval
        else Content.from_function_result(str(each.call_id), result="blue")
        for each, is_approval in zip(contents, approvals, strict=True)
    ]
    return Message("user", answers)


@pytest.mark.parametrize(
    ("what", "told", "how", "stream"),
    [
        ("plans", [{"approve_plan"}, {"ask_person"}], "stored session", True),
        ("actions", [{"ask_person", "approve_action"}], "messages", False),
    ],
)
async def test_a_run_of_agent_framework_asks_with_its_requests(
    what: str, told: list[set[str]], how: str, *, stream: bool
) -> None:
    """For approvals and answers, in a session, or with the answers alone."""
    parts, done = asking(what)
    lead = FrameworkConductor(name="lead", **parts)
    session: AgentSession | None = None if how == "messages" else AgentSession()

    async def run(asked: Any) -> Any:
        running = lead.run(asked, session=session, stream=stream)
        return await (running.get_final_response() if stream else running)

    response, names = await run("What?"), list[set[str]]()
    while requests := response.user_input_requests:
        names.append({(each.function_call or each).name for each in requests})
        if session is not None and how == "stored session":
            session = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
        response = await run(answered(requests))
    assert (response.text, done, names) == ("blue", ["Refund it."], told)


async def test_a_workflow_asks_with_request_info() -> None:
    parts, done = asking("actions", MemoryJournal())
    storage = InMemoryCheckpointStorage()

    def built() -> Workflow:
        lead = FrameworkConductor(name="lead", **parts)
        return WorkflowBuilder(start_executor=lead, checkpoint_storage=storage, name="flow").build()

    run = await built().run("What?")
    while requests := run.get_request_info_events():
        latest = await storage.get_latest(workflow_name="flow")
        responses = {each.request_id: answered([each.data]).contents[0] for each in requests}
        run = await built().run(checkpoint_id=latest.checkpoint_id, responses=responses)
    assert ([str(output) for output in run.get_outputs()], done) == (["blue"], ["Refund it."])


@SESSIONS
async def test_a_session_finds_the_run_that_waits(make: Callable[[], Ask]) -> None:
    ask, worker = make(), ScriptedWorker("one", "Forty-two.")
    async with MemoryJournal() as journal:
        options: Any = {"policy": Policy(approve="later"), "journal": journal}
        conductor = Conductor(planner_of((0, "x", ())), [worker], **options)
        for _ in range(3):
            assert await ask(conductor) != "Forty-two."
        (row,) = await journal.runs()
        assert (row.state, worker.requests) == ("waiting", [])
        await conductor.decide(row.run_id, approved=True)
        assert await ask(conductor) == "Forty-two."


@SESSIONS
@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_a_session_continues_what_broke_off(make: Callable[[], Ask], how: Any) -> None:
    await check_continued(make(), how)


class TestModelClient(ConversationContract):
    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        said: list[LLMMessage] = [
            AssistantMessage(content=text, source="a") if at % 2 else UserMessage(content=text, source="u")
            for at, text in enumerate(texts)
        ]
        return (await ConductorChatCompletionClient(used).create(said)).content


class TestChatClient(ConversationContract):
    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        said = [Message(("user", "assistant")[at % 2], [text]) for at, text in enumerate(texts)]
        return (await ConductorChatClient(used).get_response(said)).text


Ask = Callable[[Conductor], Awaitable[object]]
RUN: dict[str, Any] = {"run_id": "order-1017"}


async def agent(conductor: Conductor) -> object:
    return (await ConductorAgent("lead", conductor, **RUN).run(task="?")).messages[-1].to_text()


async def named_client(conductor: Conductor) -> object:
    asked = UserMessage(content="?", source="user")
    return (await ConductorChatCompletionClient(conductor, **RUN).create([asked])).content


async def framework_default(conductor: Conductor) -> object:
    """Ask an agent of Agent Framework's with default options, in a stream and a session."""
    lead = FrameworkConductor(conductor, default_options=RUN)
    return (await lead.run("?", session=AgentSession(), stream=True).get_final_response()).text


async def framework_client(conductor: Conductor) -> object:
    return (await ConductorChatClient(conductor).get_response([Message("user", ["?"])], options=RUN)).text


FACES = pytest.mark.parametrize("ask", [agent, named_client, framework_default, framework_client])


@FACES
async def test_the_same_call_continues_its_run(ask: Ask) -> None:
    """In another object, after a break; then it returns what was recorded."""
    found, written, reached = list[str](), list[str](), asyncio.Event()

    async def write(step: Any) -> str:
        written.append(step.subtask)
        if len(written) == 1:
            reached.set()
            await anyio.sleep_forever()
        return f"of {step.visible[0].output}"

    async with MemoryJournal() as journal:

        def made() -> Conductor:
            find = FunctionWorker(lambda step: found.append(step.subtask) or "found", card=Card(name="find"))
            workers = [find, FunctionWorker(write, card=Card(name="write"))]
            return Conductor(planner_of((0, "a", ()), (1, "b", (0,))), workers, journal=journal)

        task = asyncio.ensure_future(ask(made()))
        with anyio.fail_after(20):
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert [await ask(made()), await ask(made())] == ["of found", "of found"]
        assert (found, written) == (["a"], ["b", "b"])
        # commands find a run by the beginning of its id
        assert [row.state for row in await journal.runs(prefix=RUN["run_id"])] == ["ok"]


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def doubling(call: Call) -> Reply:
    return calling(call, "double", "double", arguments='{"number": 2}')


async def test_a_model_client_calls_tools_within_its_step() -> None:
    """Each step has an agent of its own, so that steps run side by side."""
    doubled = FunctionTool(double, description="Doubles.")
    async with ModelServer(doubling) as server:
        worker = as_worker(server.client(), name="a model", tools=[doubled])
        assert worker.acts
        assert not as_worker(server.client(), tools=[doubled], acts=False).acts
        plan = planner_of((0, "x", ()), (0, "y", ()), (0, "z", (0, 1)))
        result = await Conductor(plan, [worker]).run("?")
    assert [outcome.text for outcome in result.outcomes] == ["It is 4 and 4."] * 3
    assert worker.card.concurrency is None
    with pytest.raises(ConfigError, match="give its tools to the agent itself"):
        as_worker(doubled, tools=[doubled])


async def test_a_chat_client_calls_tools_within_its_step() -> None:
    doubled = tool(double)
    async with FrameworkServer(doubling) as server:
        worker = framework_worker(server.client(), name="model", tools=[doubled])
        assert worker.acts
        result = await Conductor(planner_of((0, "x", ())), [worker]).run("?")
    assert result.answer == "It is 4 and 4."
    with pytest.raises(ConfigError, match="give its tools to the agent itself"):
        framework_worker(FrameworkConductor(Conductor(FixedPlanner("x"), [worker])), tools=[doubled])
