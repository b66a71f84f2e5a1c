"""A graph that is ready to run: threads, answers in a form, labels, and what is refused before it runs."""

import json
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from contracts.conversation_contract import FIND, MAIL, NO_MAIL, mailing
from graphs.conducted import CONFIG, DIAMOND, EXECUTORS, Calls, Executor, Plans
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from pydantic import BaseModel
from servers.chat_server import Call, ChatServer, Reply, says
from typing_extensions import TypedDict

from langchain_podium import ConductorRunnable, as_worker, conductor_node, create_conductor_agent
from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, PlannerError, RunFailed
from podium.hosts import tool_call
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio


def _asked(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


@EXECUTORS
async def test_a_thread_is_remembered_and_no_other(executor: Executor, calls: Calls) -> None:
    conductor = Conductor(FixedPlanner(Plan((Step(0, "answer"),))), calls.workers("A"))
    agent = create_conductor_agent(conductor, executor=executor, checkpointer=InMemorySaver())
    await agent.ainvoke(_asked("My name is Ada."), CONFIG)
    state = await agent.ainvoke(_asked("What is my name?"), CONFIG)
    await agent.ainvoke(_asked("Who am I?"), {"configurable": {"thread_id": "2"}})
    assert [message.type for message in state["messages"]] == ["human", "ai", "human", "ai"]
    told = [[message.text for message in step_input.query] for step_input in calls.briefs]
    assert told == [["My name is Ada."], ["My name is Ada.", "A()", "What is my name?"], ["Who am I?"]]


def test_a_conductor_has_its_workers_already(calls: Calls) -> None:
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    with pytest.raises(ConfigError, match="it has its own"):
        create_conductor_agent(conductor, workers=calls.workers("E"))
    with pytest.raises(ConfigError, match=r"planner=.* or a podium.Conductor"):
        create_conductor_agent(workers=calls.workers("E"))


class Notes(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]


def _clerk(**options: Any) -> Any:
    """Return a graph that answers how much it has been told."""
    graph = StateGraph(Notes)
    graph.add_node("write", lambda state: {"messages": [("ai", f"{len(state['messages'])} told")]})
    return graph.add_edge(START, "write").compile(name="clerk", **options)


@pytest.mark.parametrize(("executor", "saver"), [("podium", True), ("langgraph", InMemorySaver())])
async def test_graphs_as_workers_remember_no_other_steps_and_threads(executor: Executor, saver: Any) -> None:
    plan = Plan((Step(0, "a"), Step(0, "b"), Step(0, "c", (0, 1))))
    conductor = Conductor(FixedPlanner(plan), [as_worker(_clerk(checkpointer=saver))])
    agent = create_conductor_agent(conductor, executor=executor, checkpointer=InMemorySaver())
    told = []
    for thread in ("1", "1", "2"):
        state = await agent.ainvoke(_asked("Write."), {"configurable": {"thread_id": thread}})
        told.append([outcome["text"] for outcome in state["podium"]["outcomes"]])
    # The second time, the conversation of the thread itself is part of the question.
    assert told == [["1 told"] * 3, ["3 told"] * 3, ["1 told"] * 3]


class City(BaseModel):
    """A city."""

    name: str
    people: int


class CityDict(TypedDict):
    """A city."""

    name: str
    people: int


PARIS = {"name": "Paris", "people": 2_100_000}
PLAN = Plan((Step(0, "Find the city."), Step(1, "Answer.", (0,))))
FENCED = '```json\n{"name": "Paris", "people": 3}\n```'


def _fills(arguments: str) -> Any:
    def reply(call: Call) -> Reply:
        (tool,) = call.body["tools"]
        name = tool["function"]["name"]
        assert call.body["tool_choice"] == {"type": "function", "function": {"name": name}}
        return says(call, "", tool_calls=[tool_call("1", name, arguments)])

    return reply


def conductor(server: ChatServer) -> Conductor:
    model = ChatOpenAI(model="scripted-1", base_url=server.url, api_key="none", max_retries=0)
    return Conductor(FixedPlanner(PLAN), [ScriptedWorker("finder", "Paris"), as_worker(model, name="writer")])


@pytest.mark.parametrize(("form", "executor"), [(City, "podium"), (CityDict, "langgraph")])
async def test_an_agent_answers_in_a_form(form: Any, executor: Any) -> None:
    """The state has the answer in the form, and the last message has it as JSON, without open calls."""
    async with ChatServer(_fills('{"name": "Paris", "people": 2100000}')) as server:
        options: Any = {"executor": executor, "response_format": form, "checkpointer": InMemorySaver()}
        agent = create_conductor_agent(conductor(server), name="geo", **options)
        state, again = [await agent.ainvoke(_asked(text), CONFIG) for text in ("Which?", "And again?")]
    assert state["structured_response"] == (City(**PARIS) if form is City else PARIS)
    last = state["messages"][-1]
    assert (City.model_validate_json(last.text), last.tool_calls, last.name) == (City(**PARIS), [], "geo")
    assert again["structured_response"] == state["structured_response"]


async def test_an_answer_that_does_not_fit_is_an_error() -> None:
    """What is missing or cut is not made up; the error has the run's result, and its bill."""
    async with ChatServer(_fills('{"name": "Paris", "people": "many"}')) as server:
        agent = create_conductor_agent(conductor(server), response_format=City)
        with pytest.raises(RunFailed) as caught:
            await agent.ainvoke({"messages": "Which?"})
    assert caught.value.result.usage.total_tokens > 0


@pytest.mark.parametrize(("text", "fits"), [(FENCED, True), ("Paris", False)])
async def test_a_worker_that_takes_no_tools_may_write_json(text: str, *, fits: bool) -> None:
    """Its text is the answer if it fits, and else the error says why no tool was called."""
    answers = Conductor(FixedPlanner(Plan((Step(0, "Say."),))), [ScriptedWorker("writer", text)])
    asked = create_conductor_agent(answers, response_format=City).ainvoke({"messages": "Which?"})
    if fits:
        assert (await asked)["structured_response"] == City(name="Paris", people=3)
        return
    with pytest.raises(RunFailed, match="takes_tools"):
        await asked


async def test_a_state_without_the_key_is_refused_before_anything_is_paid_for() -> None:
    worker = ScriptedWorker("writer", "x")
    node = conductor_node(Conductor(FixedPlanner(Plan((Step(0, "Say."),))), [worker]), response_format=City)
    graph = StateGraph(TypedDict("Plain", {"messages": list})).add_node("ask", node).add_edge(START, "ask")
    with pytest.raises(ConfigError, match="structured_response"):
        await graph.compile().ainvoke(_asked("Which?"))
    assert worker.requests == []


@tool
def look(word: str) -> str:
    """Look a word up."""
    return word


@tool
def ask(word: str) -> str:
    """Ask a person."""
    return str(interrupt(word))


def test_a_model_whose_tools_nobody_calls_is_no_worker() -> None:
    bound = ChatOpenAI(model="m", base_url="http://127.0.0.1:9", api_key="none").bind_tools([look])
    chain = ChatPromptTemplate([("human", "{x}")]) | bound
    for thing in (bound.with_config(run_name="m").with_retry(), chain):
        with pytest.raises(ConfigError, match=r"look.*create_agent"):
            as_worker(thing, name="m", input=(lambda _: {"x": 1}) if thing is chain else None)


def _node(_: Any) -> dict[str, Any]:
    return {"messages": [AIMessage(str(interrupt("?")))]}


def _guarded() -> Any:
    fake = GenericFakeChatModel(messages=iter([]))
    object.__setattr__(fake, "bind_tools", lambda *_, **__: fake)
    return create_agent(fake, [look], middleware=[HumanInTheLoopMiddleware({"look": True})], name="agent")


INTERRUPTING: dict[str, Callable[[], Any]] = {
    "tool": lambda: ask,
    "function": lambda: RunnableLambda(_node, name="function"),
    "middleware": _guarded,
}


@pytest.mark.parametrize("kind", INTERRUPTING)
async def test_an_interrupt_without_a_checkpointer_is_refused(kind: str) -> None:
    planner = Plans(Plan((Step(0, "x"),)))
    conductor = Conductor(planner, [as_worker(INTERRUPTING[kind]())])
    for run in (create_conductor_agent(conductor, executor="langgraph"), ConductorRunnable(conductor)):
        with pytest.raises(ConfigError, match="checkpointer"):
            await run.ainvoke(_asked("Q?"))
    assert planner.asked == 0


class Context(TypedDict, total=False):
    podium_labels: list[str]
    podium_policy: Any
    podium_limits: Any
    podium_workers: Any


def _in_graph(used: Conductor, executor: Executor, saver: Any = None, **options: Any) -> Any:
    graph = StateGraph(MessagesState, context_schema=Context)
    graph.add_node("ask", conductor_node(used, executor=executor, **options))
    graph.add_edge(START, "ask")
    return graph.compile(checkpointer=saver)


def _agent(used: Conductor, executor: Executor, saver: Any = None, **options: Any) -> Any:
    return create_conductor_agent(used, executor=executor, checkpointer=saver, **options)


@pytest.mark.parametrize(("made", "executor"), [(_in_graph, "podium"), (_agent, "langgraph")])
async def test_the_state_carries_labels(made: Callable[..., Any], executor: Executor) -> None:
    """Another process refuses in the next turn what a rule forbids."""
    saver = InMemorySaver()
    first = await made(mailing(FIND), executor, saver).ainvoke(_asked("How high?"), CONFIG)
    assert first["messages"][-1].response_metadata["podium_labels"] == ["untrusted", "web"]
    with pytest.raises(PlannerError, match="mailer"):
        await made(mailing(MAIL), executor, saver).ainvoke(_asked("Mail it."), CONFIG)


@pytest.mark.parametrize(
    ("executor", "options", "context"),
    [
        ("podium", {"policy": NO_MAIL}, {"podium_labels": ["secret"]}),
        ("langgraph", {"labels": ["secret"]}, {"podium_policy": NO_MAIL}),
    ],
)
async def test_labels_and_policy(executor: Executor, options: Any, context: Context) -> None:
    graph = _in_graph(mailing(MAIL, policy=None), executor, **options)
    with pytest.raises(PlannerError, match="mailer"):
        await graph.ainvoke(_asked("Mail it."), context=context)


@EXECUTORS
async def test_a_tenant_has_its_own_workers_and_limits(executor: Executor) -> None:
    mine = json.dumps({"worker": "mine", "subtask": "x", "access": []})
    graph = _in_graph(mailing(mine, policy=None), executor)
    asked = _asked("How high?")
    own = RunnableLambda(lambda _: "It is 300 m high.", name="mine")
    workers = [as_worker(own, acts=False)]
    left = await graph.ainvoke(asked, context={"podium_workers": workers})
    assert left["messages"][-1].content == "It is 300 m high."
    with pytest.raises(PlannerError, match="mine"):
        await graph.ainvoke(asked)
    with pytest.raises((PlannerError, RunFailed), match="calls"):
        await graph.ainvoke(asked, context={"podium_workers": workers, "podium_limits": Limits(calls=1)})


async def test_a_context_with_another_value() -> None:
    """It is refused before the planner is asked; the graph of a node is built for what may happen in it."""
    graph = _in_graph(mailing(MAIL), "langgraph")
    for name, value in (
        ("podium_policy", "none"),
        ("podium_workers", [RunnableLambda(lambda asked: asked, name="acting")]),
        ("podium_limit", Limits(calls=1)),
    ):
        with pytest.raises(ConfigError, match=name):
            await graph.ainvoke(_asked("Mail it."), context={name: value})
