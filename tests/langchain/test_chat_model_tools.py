"""Tools of a chat model's caller: offered to steps, called, and gone on from."""

import json
from typing import Any, TypedDict

import pytest
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from pydantic import BaseModel
from servers.capable import capable, is_planning
from servers.chat_server import Call, ChatServer, Reply, says
from servers.openai_models import openai

from langchain_podium.chat_models import ChatPodium
from langchain_podium.workers import as_planner, as_worker
from podium import ChatPlanner, ChatWorker, Conductor, Endpoint, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed
from podium.hosts import tool_call
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.types import Completion
from podium.usage import Usage
from podium.workers import Request

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:create_react_agent has been moved"),
]


TWO_STEPS = (
    '{"worker": 0, "subtask": "Look.", "access": []}\n{"worker": 1, "subtask": "Answer.", "access": [0]}\n'
)


@tool
def weather(city: str) -> str:
    """Say how the weather is in a city."""
    return f"rain in {city}"


WRITER = Policy(tools=["writer"])
"""Lets the worker of the last step call tools, and no other."""


def podium(url: str, policy: Policy = WRITER, **more: Any) -> Conductor:
    """Return a conductor over Podium's workers of one server."""
    server = Endpoint(url, api_key="key", provider="openai")
    planner = ChatPlanner(ChatWorker("planner", endpoint=server))
    pool = [ChatWorker(name, endpoint=server) for name in ("finder", "writer")]
    return Conductor(planner, pool, policy=policy, **more)


def langchain(url: str, policy: Policy = WRITER, **more: Any) -> Conductor:
    """Return the same over chat models of LangChain's."""
    pool = [as_worker(openai(url, name)) for name in ("finder", "writer")]
    return Conductor(as_planner(openai(url, "planner")), pool, policy=policy, **more)


def asked(server: ChatServer) -> list[str]:
    """Return who was asked, in order."""
    return [call.body["model"] for call in server.calls]


@pytest.mark.parametrize("more", [[], [HumanMessage("Thank you.")]], ids=["", "a message after the result"])
async def test_a_system_message_that_changes(more: list[HumanMessage]) -> None:
    """The turn continues the run that called the tool."""
    reader, writer = ScriptedWorker("reader", "facts"), ScriptedWorker("writer", calling)
    writer.takes_tools = True
    conductor = Conductor(FixedPlanner(Plan((Step(0, "Read."), Step(1, "Write.", (0,))))), [reader, writer])
    model = ChatPodium(conductor=conductor).bind_tools([weather])
    asked = HumanMessage("How is the weather in 'Bonn'?")
    called = await model.ainvoke([SystemMessage("It is 10:00:00."), asked])
    result = weather.invoke(called.tool_calls[0])
    answer = await model.ainvoke([SystemMessage("It is 10:00:07."), asked, called, result, *more])
    assert (answer.text, len(reader.requests)) == ("It rains.", 1)
    assert "It is 10:00:07." in [said.content for said in writer.requests[-1].messages]


def calling(request: Request) -> Completion:
    """Call a tool, until its result is seen."""
    if any(message.role == "tool" for message in (*request.messages, *request.tool_messages)):
        return Completion("It rains.")
    return Completion("", "tool_calls", tool_calls=(tool_call("call-1", "weather", {"city": "Bonn"}),))


@pytest.mark.parametrize("pool", [podium, langchain])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_of_a_tool_and_the_turn_after_it(pool: Any, *, stream: bool) -> None:
    """The plan and the other steps are not paid for again; the last worker sees what the tool returned."""
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(conductor=pool(server.url)).bind_tools([weather])
        question = HumanMessage("How is the weather in 'Bonn'?")
        called = await whole(model, [question], stream=stream)
        assert asked(server) == ["planner", "finder", "writer"]
        assert [("tools" in call.body) for call in server.calls] == [False, False, True]
        assert (called.text, called.response_metadata["finish_reason"]) == ("", "tool_calls")
        (call,) = called.tool_calls
        assert (call["name"], call["args"]) == ("weather", {"city": "Bonn"})

        answered = await whole(model, [question, called, weather.invoke(call)], stream=stream)
        assert asked(server) == ["planner", "finder", "writer", "writer"]
        assert answered.text == "The tools say rain in Bonn."
        *_, asking, result = server.calls[-1].body["messages"]
        assert asking["tool_calls"][0]["function"]["name"] == "weather"
        assert (result["role"], result["content"], result["tool_call_id"]) == (
            "tool",
            "rain in Bonn",
            call["id"],
        )
    told = answered.response_metadata["podium"]
    assert [(step["worker"], step["reused"]) for step in told["steps"]] == [
        ("finder", True),
        ("writer", False),
    ]
    assert told["usage"]["total_tokens"] == 218  # the one call that this turn made


async def whole(model: Any, messages: list[Any], *, stream: bool) -> AIMessage:
    """Return a message, whole or of its chunks, as a checkpoint would give it back."""
    if not stream:
        message = await model.ainvoke(messages)
    else:
        message = None
        async for chunk in model.astream(messages):
            message = chunk if message is None else message + chunk
    (kept,) = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    assert isinstance(kept, AIMessage)
    return kept


async def test_several_turns_keep_the_plan() -> None:
    """Each turn goes on from the one before."""

    def reply(call: Call) -> Reply:
        results = [m for m in call.body["messages"] if m["role"] == "tool"]
        if len(results) == 1 and not is_planning(call):
            again = {
                "id": "again",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Ulm"}'},
            }
            return says(call, "One more.", tool_calls=[again], finish_reason="tool_calls")
        return capable(call)

    with ChatServer(reply).in_thread() as server:
        model = ChatPodium(conductor=podium(server.url)).bind_tools([weather])
        messages: list[Any] = [HumanMessage("How is the weather in 'Bonn'?")]
        for _ in range(2):
            message = await model.ainvoke(messages)
            messages += [message, weather.invoke(message.tool_calls[0])]
        assert message.text == "One more."
        assert (await model.ainvoke(messages)).text == "The tools say rain in Ulm."
        assert asked(server) == ["planner", "finder", "writer", "writer", "writer"]
        following = [*messages, AIMessage("Rain."), HumanMessage("And tomorrow?")]
        await model.ainvoke(following)
        assert asked(server)[5:] == ["planner", "finder", "writer"]


@pytest.mark.parametrize("lost", ["metadata", "question", "worker", "records"])
async def test_what_cannot_be_gone_on_from_is_planned_anew(lost: str) -> None:
    """Without what the message told, or for another question, or another pool."""
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(conductor=podium(server.url)).bind_tools([weather])
        question = HumanMessage("How is the weather in 'Bonn'?")
        called = await model.ainvoke([question])
        turn = called.response_metadata["podium"]["continuation"]
        if lost == "metadata":
            called = AIMessage("", tool_calls=called.tool_calls)
        elif lost == "question":
            question = HumanMessage("How was the weather in 'Bonn'?")
        elif lost == "worker":
            turn["records"] = [record.replace('"writer"', '"someone"') for record in turn["records"]]
        else:
            turn["records"][0] = "{}"
        answered = await model.ainvoke([question, called, weather.invoke(called.tool_calls[0])])
        assert answered.text == "The tools say rain in Bonn."
        assert asked(server) == 2 * ["planner", "finder", "writer"]


async def test_with_a_journal_both_turns_are_recorded() -> None:
    """Each turn is a run of its own there, and the second makes one call."""
    journal = MemoryJournal()
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(conductor=podium(server.url, journal=journal)).bind_tools([weather])
        question = HumanMessage("How is the weather in 'Bonn'?")
        called = await model.ainvoke([question])
        await model.ainvoke([question, called, weather.invoke(called.tool_calls[0])])
        assert asked(server) == ["planner", "finder", "writer", "writer"]
    assert [row.state for row in await journal.runs()] == ["ok", "ok"]


async def test_an_approval_is_asked_for_once() -> None:
    """The plan of the turn before is approved already."""
    looked = []

    def approve(proposed: Any) -> bool:
        looked.append(proposed)
        return True

    with ChatServer(capable).in_thread() as server:
        conductor = podium(server.url, policy=Policy(approve=approve, tools=["writer"]))
        model = ChatPodium(conductor=conductor).bind_tools([weather])
        question = HumanMessage("How is the weather in 'Bonn'?")
        called = await model.ainvoke([question])
        await model.ainvoke([question, called, weather.invoke(called.tool_calls[0])])
        assert asked(server) == ["planner", "finder", "writer", "writer"]
    assert len(looked) == 1


async def test_rounds_before_the_calls_are_not_done_over() -> None:
    """Of a run of two rounds, the turn after goes on from the second."""
    first = '{"worker": 0, "subtask": "Try.", "access": []}\n'
    second = TWO_STEPS
    calls = (
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}},
    )
    plans = iter([first, second])

    class Writer(ScriptedWorker):
        takes_tools = True

    finder = ScriptedWorker("finder", "Found.")
    writer = Writer(
        "writer", lambda r: "It rains." if r.tool_messages else Completion("", "tool_calls", tool_calls=calls)
    )
    planner = ScriptedWorker("planner", lambda _: next(plans))
    conductor = Conductor(ChatPlanner(planner), [finder, writer], limits=Limits(rounds=2))
    model = ChatPodium(conductor=conductor).bind_tools([weather])
    called = await model.ainvoke("How is the weather?")
    assert len(planner.requests) == 2
    assert called.tool_calls
    question = HumanMessage("How is the weather?")
    plans = iter([second])
    answered = await model.ainvoke([question, called, weather.invoke(called.tool_calls[0])])
    assert answered.text == "It rains."
    assert [len(worker.requests) for worker in (finder, writer)] == [2, 2]


@pytest.mark.parametrize(
    ("choice", "sent"), [("any", "required"), ("required", "required"), ("none", "none")]
)
async def test_tool_choice_is_sent_as_openai_writes_it(choice: str, sent: str) -> None:
    """`any` is LangChain's word for it."""
    with ChatServer(capable).in_thread() as server:
        await (
            ChatPodium(conductor=podium(server.url))
            .bind_tools([weather], tool_choice=choice)
            .ainvoke("Well?")
        )
        assert server.calls[-1].body["tool_choice"] == sent


async def test_tool_choice_by_name() -> None:
    """One tool of several."""

    @tool
    def tide(city: str) -> str:
        """Say how high the tide is."""
        return city

    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(conductor=langchain(server.url)).bind_tools([weather, tide], tool_choice="tide")
        message = await model.ainvoke("Well?")
        assert [call["name"] for call in message.tool_calls] == ["tide"]
    with pytest.raises(ConfigError, match="not an offered tool: the tools are weather"):
        ChatPodium(conductor=podium("http://127.0.0.1:9/v1")).bind_tools([weather], tool_choice="tide")


async def test_a_call_that_had_to_be_and_was_not_raises() -> None:
    """Who writes the answer may take no tools; then it is no answer, and says so."""
    plan = '{"worker": 0, "subtask": "Answer.", "access": []}\n'
    conductor = Conductor(ChatPlanner(ScriptedWorker("planner", plan)), [ScriptedWorker("a", "Forty-two.")])
    model = ChatPodium(conductor=conductor)
    with pytest.raises(RunFailed, match="requires a tool call") as raised:
        await model.bind_tools([weather], tool_choice="any").ainvoke("What?")
    assert raised.value.result.answer == "Forty-two."
    assert (await model.bind_tools([weather]).ainvoke("What?")).text == "Forty-two."


async def test_one_call_at_a_time() -> None:
    """Of several calls, the message has the first, and the next one the second, without another call."""
    calls = tuple(tool_call(f"call-{city}", "weather", {"city": city}) for city in ("Bonn", "Ulm"))

    def call_both(request: Request) -> Completion:
        said = [message.text for message in request.tool_messages if message.role == "tool"]
        return Completion(" ".join(said)) if said else Completion("", "tool_calls", tool_calls=calls)

    reader, writer = ScriptedWorker("reader", "facts"), ScriptedWorker("writer", call_both)
    writer.takes_tools = True
    conductor = Conductor(FixedPlanner(Plan((Step(0, "Read."), Step(1, "Write.", (0,))))), [reader, writer])
    model = ChatPodium(conductor=conductor).bind_tools([weather], parallel_tool_calls=False)
    asked = HumanMessage("How is the weather?")
    said: list[Any] = [asked]
    for _ in range(2):
        called = await model.ainvoke(said)
        (call,) = called.tool_calls
        said += [called, weather.invoke(call)]
    answer = await model.ainvoke(said)
    assert (answer.text, len(reader.requests)) == ("rain in Bonn rain in Ulm", 1)
    assert len(writer.requests) == 2


async def test_broken_arguments_are_told_as_such() -> None:
    """LangChain's agents send them back to the model."""
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": '}}

    def reply(request: Call) -> Reply:
        if "tools" not in request.body:
            return capable(request)
        return says(request, "", tool_calls=[call], finish_reason="tool_calls")

    with ChatServer(reply).in_thread() as server:
        message = await ChatPodium(conductor=podium(server.url)).bind_tools([weather]).ainvoke("What?")
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["name"] == "weather"


@pytest.mark.parametrize("pool", [podium, langchain])
async def test_an_agent_of_langgraph(pool: Any) -> None:
    """Its loop of model and tools, with a checkpoint after each: planned once per question."""
    with ChatServer(capable).in_thread() as server:
        agent = create_react_agent(
            ChatPodium(conductor=pool(server.url)), [weather], checkpointer=InMemorySaver()
        )
        config: Any = {"configurable": {"thread_id": "1"}}
        state = await agent.ainvoke({"messages": [("user", "How is the weather in 'Bonn'?")]}, config)
        assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai"]
        assert state["messages"][-1].text == "The tools say rain in Bonn."
        assert asked(server) == ["planner", "finder", "writer", "writer"]
        state = await agent.ainvoke({"messages": [("user", "And in 'Ulm'?")]}, config)
        assert state["messages"][-1].text == "The tools say rain in Ulm."
        assert asked(server)[4:] == ["planner", "finder", "writer", "writer"]


@pytest.mark.parametrize("pool", [podium, langchain])
async def test_an_agent_whose_steps_all_call_tools(pool: Any) -> None:
    """Each once, and each sees its own result."""
    with ChatServer(capable).in_thread() as server:
        agent = create_react_agent(ChatPodium(conductor=pool(server.url, policy=Policy())), [weather])
        state = await agent.ainvoke({"messages": [("user", "How is the weather in 'Bonn'?")]})
        assert [message.type for message in state["messages"]] == ["human", *["ai", "tool"] * 2, "ai"]
        assert state["messages"][-1].text == "The tools say rain in Bonn."
        assert asked(server) == ["planner", "finder", "finder", "writer", "writer"]
        shown = [sum(said["role"] == "tool" for said in call.body["messages"]) for call in server.calls]
    assert shown == [0, 0, 1, 0, 1]


async def test_an_agent_of_langgraph_that_is_not_async() -> None:
    """The same by `invoke`."""
    with ChatServer(capable).in_thread() as server:
        agent = create_react_agent(ChatPodium(conductor=langchain(server.url)), [weather])
        state = agent.invoke({"messages": [("user", "How is the weather in 'Bonn'?")]})
        assert state["messages"][-1].text == "The tools say rain in Bonn."


class Person(BaseModel):
    """Someone."""

    name: str
    age: int


class PersonDict(TypedDict):
    """Someone."""

    name: str
    age: int


ASKED = "Who is 'Ada', aged 36?"


@pytest.mark.long
@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
@pytest.mark.parametrize("pool", [podium, langchain])
async def test_structured_output(method: Any, pool: Any) -> None:
    """A Pydantic class, a `TypedDict` and a schema, whole and streamed."""
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(conductor=pool(server.url))
        asks = model.with_structured_output(Person, method=method)
        assert await asks.ainvoke(ASKED) == Person(name="Ada", age=36)
        assert [found async for found in asks.astream(ASKED)][-1] == Person(name="Ada", age=36)
        for schema in (PersonDict, Person.model_json_schema()):
            found = await model.with_structured_output(schema, method=method).ainvoke(ASKED)
            assert found == {"name": "Ada", "age": 36}
        last, first = server.calls[-1].body, server.calls[-2].body
        assert ("response_format" in last) == (method == "json_schema")
        assert not {"tools", "response_format"} & first.keys()


async def test_json_mode_reads_what_the_question_asked_for() -> None:
    """Nothing holds the answer to it; what is no JSON is an error, or told beside the message."""
    answers = iter(['```json\n{"name": "Ada", "age": 36}\n```', "Ada, who is 36."])
    plan = '{"worker": 0, "subtask": "Answer.", "access": []}\n'
    pool = [ScriptedWorker("a", lambda _: next(answers))]
    model = ChatPodium(conductor=Conductor(ChatPlanner(ScriptedWorker("planner", plan)), pool))
    asks = model.with_structured_output(Person, method="json_mode", include_raw=True)
    assert (await asks.ainvoke(ASKED))["parsed"] == Person(name="Ada", age=36)
    found: Any = await asks.ainvoke(ASKED)
    assert (found["raw"].content, found["parsed"]) == ("Ada, who is 36.", None)
    assert found["parsing_error"] is not None


def test_structured_output_that_cannot_be() -> None:
    """Methods there are not, and strictness nothing would keep."""
    model = ChatPodium(conductor=podium("http://127.0.0.1:9/v1"))
    with pytest.raises(ConfigError, match="method"):
        model.with_structured_output(Person, method="magic")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="json_mode"):
        model.with_structured_output(Person, method="json_mode", strict=True)
    with pytest.raises(TypeError, match="does not accept tools"):
        model.with_structured_output(Person, tools=[])


async def test_a_tool_message_without_tools() -> None:
    """What a tool returned can be asked about with no tool offered any more."""
    call = {"name": "weather", "args": {"city": "Bonn"}, "id": "c1", "type": "tool_call"}
    messages = [
        HumanMessage("Well?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("rain", tool_call_id="c1"),
    ]
    with ChatServer(capable).in_thread() as server:
        answered = await ChatPodium(conductor=podium(server.url)).ainvoke(messages)
        assert answered.text == "The tools say rain."
        assert server.calls[-2].body["messages"][-1]["role"] == "user"


async def test_usage_of_a_turn_is_its_own() -> None:
    """What the turn before took is not told again."""
    calls = (
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}},
    )

    class Writer(ScriptedWorker):
        takes_tools = True

    pool = [
        ScriptedWorker("finder", Completion("Found.", usage=Usage(100, 10))),
        Writer("writer", Completion("So.", "tool_calls", Usage(10, 1), tool_calls=calls)),
    ]
    planner = ChatPlanner(ScriptedWorker("planner", Completion(TWO_STEPS, usage=Usage(1000, 1))))
    model = ChatPodium(conductor=Conductor(planner, pool)).bind_tools([weather])
    question = HumanMessage("Well?")
    called = await model.ainvoke([question])
    again = await model.ainvoke([question, called, weather.invoke(called.tool_calls[0])])
    assert [m.usage_metadata["total_tokens"] for m in (called, again)] == [1122, 11]
