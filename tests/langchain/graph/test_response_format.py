"""Answers in a form: `response_format` of the node and of the agent, as agents of LangChain have it."""

from typing import Annotated, Any

import pytest
from langchain_core._api import LangChainBetaWarning
from langchain_core.messages import AIMessage, AnyMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel
from servers.chat_server import Call, ChatServer, Reply, says
from typing_extensions import TypedDict

from langchain_podium import as_worker
from langchain_podium.graph import conductor_node, create_conductor_agent
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio


class City(BaseModel):
    """A city."""

    name: str
    people: int


class CityDict(TypedDict):
    """A city."""

    name: str
    people: int


JSON_SCHEMA = {
    "title": "City",
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}
PARIS = {"name": "Paris", "people": 2_100_000}
PLAN = Plan((Step(0, "Find the city."), Step(1, "Answer.", (0,))))
UNFIT = ['{"name": "Paris"}', '{"name": "Paris", "people": "many"}', '{"name": "P']
FENCED = '```json\n{"name": "Paris", "people": 3}\n```'
EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])


class State(TypedDict, total=False):
    """A state of the user's."""

    messages: Annotated[list[AnyMessage], add_messages]
    structured_response: Any


def fills(arguments: str) -> Any:
    """Return a script that calls the tool it is offered."""

    def reply(call: Call) -> Reply:
        (tool,) = call.body["tools"]
        name = tool["function"]["name"]
        assert call.body["tool_choice"] == {"type": "function", "function": {"name": name}}
        made = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
        return says(call, "", tool_calls=[made])

    return reply


def conductor(server: ChatServer) -> Conductor:
    """Return a conductor whose last step is a model over HTTP."""
    model = ChatOpenAI(model="scripted-1", base_url=server.url, api_key="none", max_retries=0)
    return Conductor(FixedPlanner(PLAN), [ScriptedWorker("finder", "Paris"), as_worker(model, name="writer")])


@EXECUTORS
@pytest.mark.parametrize("form", [City, CityDict, JSON_SCHEMA], ids=["model", "dict", "schema"])
async def test_an_agent_answers_in_a_form(form: Any, executor: Any) -> None:
    """The state has the answer in the form, and the last message has it as JSON, without open calls."""
    async with ChatServer(fills('{"name": "Paris", "people": 2100000}')) as server:
        agent = create_conductor_agent(
            conductor(server),
            executor=executor,
            response_format=form,
            checkpointer=InMemorySaver(),
            name="geo",
        )
        state = await agent.ainvoke({"messages": "Which?"}, {"configurable": {"thread_id": "1"}})
        again = await agent.ainvoke({"messages": "And again?"}, {"configurable": {"thread_id": "1"}})
    assert state["structured_response"] == (City(**PARIS) if form is City else PARIS)  # type: ignore[arg-type]
    last = state["messages"][-1]
    assert isinstance(last, AIMessage)
    assert City.model_validate_json(last.text) == City(**PARIS)  # type: ignore[arg-type]  # as above
    assert (last.tool_calls, last.name) == ([], "geo")
    assert again["structured_response"] == state["structured_response"]


@EXECUTORS
async def test_a_node_answers_in_a_form(executor: Any) -> None:
    """The key is the one that LangChain's agents use; the message has the name of the conductor."""
    async with ChatServer(fills('{"name": "Paris", "people": 2100000}')) as server:
        graph = StateGraph(State)
        graph.add_node("ask", conductor_node(conductor(server), executor=executor, response_format=City))
        graph.add_edge(START, "ask")
        graph.add_edge("ask", END)
        state = await graph.compile().ainvoke({"messages": [("user", "Which?")]})
    assert state["structured_response"] == City(**PARIS)  # type: ignore[arg-type]  # of the fields' types
    assert state["messages"][-1].name == "conductor"


@pytest.mark.parametrize(
    "arguments", ['{"name": "Paris"}', '{"name": "Paris", "people": "many"}', '{"name": "P']
)
@pytest.mark.parametrize("form", [City, JSON_SCHEMA], ids=["model", "schema"])
async def test_an_answer_that_does_not_fit_is_an_error(form: Any, arguments: str) -> None:
    """What is missing or cut is not made up; the error has the run's result, and its bill."""
    async with ChatServer(fills(arguments)) as server:
        agent = create_conductor_agent(conductor(server), response_format=form)
        with pytest.raises(RunFailed) as caught:
            await agent.ainvoke({"messages": "Which?"})
    assert caught.value.result is not None
    assert caught.value.result.usage.total_tokens > 0


@pytest.mark.parametrize(("text", "fits"), [(FENCED, True), ("Paris", False)])
async def test_a_worker_that_takes_no_tools_may_write_json(text: str, *, fits: bool) -> None:
    """Its text is the answer if it fits, and else the error says why no tool was called."""
    worker = ScriptedWorker("writer", text)
    agent = create_conductor_agent(
        Conductor(FixedPlanner(Plan((Step(0, "Say."),))), [worker]), response_format=City
    )
    if fits:
        state = await agent.ainvoke({"messages": "Which?"})
        assert state["structured_response"] == City(name="Paris", people=3)
        return
    with pytest.raises(RunFailed, match="takes_tools"):
        await agent.ainvoke({"messages": "Which?"})


async def test_a_state_without_the_key_is_refused_before_anything_is_paid_for() -> None:
    """LangGraph would drop the answer."""
    worker = ScriptedWorker("writer", "x")
    node = conductor_node(Conductor(FixedPlanner(Plan((Step(0, "Say."),))), [worker]), response_format=City)
    graph = StateGraph(TypedDict("Plain", {"messages": list}))
    graph.add_node("ask", node)
    graph.add_edge(START, "ask")
    with pytest.raises(ConfigError, match="structured_response"):
        await graph.compile().ainvoke({"messages": [("user", "Which?")]})
    assert worker.requests == []


@pytest.mark.parametrize("form", [3, {"type": "object"}, int])
def test_what_is_no_form_is_refused(form: Any) -> None:
    """At once, and not at the end of a run."""
    with pytest.raises(ConfigError, match="response_format"):
        create_conductor_agent(
            Conductor(FixedPlanner(PLAN), [ScriptedWorker("w", "x")]), response_format=form
        )


def test_schemas_are_known_on_every_python() -> None:
    """What `langgraph dev` and `as_tool` read of the agent."""
    agent = create_conductor_agent(Conductor(FixedPlanner(PLAN), [ScriptedWorker("w", "x")]))
    given, returned = agent.get_input_jsonschema(), agent.get_output_jsonschema()
    assert "messages" in given["properties"]
    assert {"messages", "podium"} <= returned["properties"].keys()
    with pytest.warns(LangChainBetaWarning):
        tool = agent.as_tool(name="team", description="Answers.")
    assert "messages" in tool.args
