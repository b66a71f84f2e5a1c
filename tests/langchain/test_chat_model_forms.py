"""Forms and tools of a conductor as a chat model: what is cut or missing is an error, and no guess."""

import json
from typing import Any

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, HumanMessage, messages_from_dict, messages_to_dict
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from servers.capable import capable
from servers.chat_server import Call, ChatServer, Reply, says
from servers.openai_models import openai
from typing_extensions import TypedDict

from langchain_podium import ChatPodium, as_planner, as_worker
from podium import ChatPlanner, ChatWorker, Conductor, Endpoint, Plan, Price, ScriptedWorker, Step
from podium.errors import AnswerCut, AnswerRefused, ConfigError
from podium.hosts import tool_call
from podium.planners import FixedPlanner
from podium.policy import Policy

pytestmark = pytest.mark.anyio


class Person(BaseModel):
    name: str


SCHEMA = {"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}}
PLAN = Plan((Step(0, "Answer."),))
FORMS = pytest.mark.parametrize("form", [Person, SCHEMA], ids=["model", "schema"])


def _over(worker: Any) -> ChatPodium:
    return ChatPodium(conductor=Conductor(FixedPlanner(PLAN), [worker]))


CUT = '{"name": "Ad'


@pytest.mark.parametrize(("form", "text"), [(Person, CUT), (SCHEMA, f"It is:\n```json\n{CUT}")])
async def test_text_that_is_cut_is_an_error(form: Any, text: str) -> None:
    """LangChain's parsers would complete it: to a person called Ad."""
    model = _over(ScriptedWorker("writer", text))
    with pytest.raises(OutputParserException):
        await model.with_structured_output(form, method="json_mode").ainvoke("Who?")
    raw = model.with_structured_output(form, method="json_mode", include_raw=True)
    found = await raw.ainvoke("Who?")
    assert (found["raw"].text, found["parsed"]) == (text, None)
    assert isinstance(found["parsing_error"], OutputParserException)


@FORMS
async def test_text_that_is_whole_is_read(form: Any) -> None:
    for text in ('{"name": "Ada"}', 'It is:\n```json\n{"name": "Ada"}\n```'):
        asks = _over(ScriptedWorker("writer", text)).with_structured_output(form, method="json_mode")
        found = await asks.ainvoke("Who?")
        assert found == (Person(name="Ada") if form is Person else {"name": "Ada"})


@FORMS
async def test_a_call_that_is_cut_is_an_error(form: Any) -> None:
    """LangChain's parsers would return `None`, as if that were the answer."""
    made = tool_call("1", "Person", CUT)
    async with ChatServer(lambda call: says(call, "", tool_calls=[made])) as server:
        with pytest.raises(OutputParserException, match="cut"):
            await _over(as_worker(_model(server))).with_structured_output(form).ainvoke("Who?")


def _model(server: ChatServer) -> ChatOpenAI:
    return ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0)


class Place(TypedDict):
    city: str
    country: str


PLACE = {
    "title": "Place",
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city", "country"],
}


@pytest.mark.parametrize(("form", "method"), [(Place, "function_calling"), (PLACE, "json_schema")])
async def test_a_missing_key_is_an_error(form: Any, method: Any) -> None:
    """As it is for a class of Pydantic; a dict without the key would fail only where it is read."""

    def reply(call: Call) -> Reply:
        said = '{"city": "Paris"}' if len(server.calls) == 1 else '{"city": "Paris", "country": "France"}'
        if method != "function_calling":
            return says(call, said)
        return says(call, "", tool_calls=[tool_call("1", "Place", said)])

    async with ChatServer(reply) as server:
        asks = _over(as_worker(_model(server))).with_structured_output(form, method=method)
        with pytest.raises(OutputParserException, match="'country' is a required property"):
            await asks.ainvoke("Where?")
        assert await asks.ainvoke("Where?") == {"city": "Paris", "country": "France"}


@pytest.mark.parametrize(("finish", "error"), [("length", AnswerCut), ("content_filter", AnswerRefused)])
async def test_an_answer_that_cannot_be_parsed_is_told_by_its_end(finish: str, error: Any) -> None:
    async with ChatServer(lambda call: says(call, CUT, finish_reason=finish)) as server:
        form = _model(server).with_structured_output(Person, method="json_schema")
        worker = as_worker(form, name="form", price=Price(input=1, output=1))
        result = await Conductor(FixedPlanner(PLAN), [worker]).run("Q?")
        calls = len(server.calls)
    (outcome,) = result.outcomes
    assert (outcome.status, outcome.problem.code, calls) == ("failed", error.code, 1)


@tool
def weather(city: str) -> str:
    """Say how the weather is in a city."""
    return f"rain in {city}"


WRITER = Policy(tools=["writer"])
"""Lets the worker of the last step call tools, and no other."""


def _podium(url: str) -> Conductor:
    server = Endpoint(url, api_key="key", provider="openai")
    planner, *pool = (ChatWorker(name, endpoint=server) for name in ("planner", "finder", "writer"))
    return Conductor(ChatPlanner(planner), pool, policy=WRITER)


def _langchain(url: str) -> Conductor:
    pool = [as_worker(openai(url, name)) for name in ("finder", "writer")]
    return Conductor(as_planner(openai(url, "planner")), pool, policy=WRITER)


def asked(server: ChatServer) -> list[str]:
    return [call.body["model"] for call in server.calls]


@pytest.mark.parametrize(("pool", "stream"), [(_podium, False), (_langchain, True)])
async def test_a_call_of_a_tool_and_the_turn_after_it(pool: Any, *, stream: bool) -> None:
    """The plan and the other steps are not paid for again; the last worker sees what the tool returned."""
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(conductor=pool(server.url)).bind_tools([weather])
        question = HumanMessage("How is the weather in 'Bonn'?")
        called = await _whole(model, [question], stream=stream)
        assert asked(server) == ["planner", "finder", "writer"]
        assert [("tools" in call.body) for call in server.calls] == [False, False, True]
        assert (called.text, called.response_metadata["finish_reason"]) == ("", "tool_calls")
        (call,) = called.tool_calls
        assert (call["name"], call["args"]) == ("weather", {"city": "Bonn"})

        answered = await _whole(model, [question, called, weather.invoke(call)], stream=stream)
        assert asked(server) == ["planner", "finder", "writer", "writer"]
        assert answered.text == "The tools say rain in Bonn."
        *_, asking, result = server.calls[-1].body["messages"]
        assert asking["tool_calls"][0]["function"]["name"] == "weather"
        assert result == {"role": "tool", "content": "rain in Bonn", "tool_call_id": call["id"]}
    told = answered.response_metadata["podium"]
    assert [(s["worker"], s["reused"]) for s in told["steps"]] == [("finder", True), ("writer", False)]
    assert told["usage"]["total_tokens"] == 218  # the one call that this turn made


async def _whole(model: Any, messages: list[Any], *, stream: bool) -> AIMessage:
    """Return a message, whole or of its chunks, as a checkpoint would give it back."""
    if stream:
        first, *others = [chunk async for chunk in model.astream(messages)]
        message = sum(others, first)
    else:
        message = await model.ainvoke(messages)
    (kept,) = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    return kept


async def test_tool_choice_by_name() -> None:
    @tool
    def tide(city: str) -> str:
        """Say how high the tide is."""
        return city

    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(conductor=_langchain(server.url)).bind_tools([weather, tide], tool_choice="tide")
        message = await model.ainvoke("Well?")
        assert [call["name"] for call in message.tool_calls] == ["tide"]
    with pytest.raises(ConfigError, match="not an offered tool: the tools are weather"):
        ChatPodium(conductor=_podium("http://127.0.0.1:9/v1")).bind_tools([weather], tool_choice="tide")


def test_structured_output_that_cannot_be() -> None:
    model = ChatPodium(conductor=_podium("http://127.0.0.1:9/v1"))
    with pytest.raises(ConfigError, match="method"):
        model.with_structured_output(Person, method="magic")
    with pytest.raises(ConfigError, match="json_mode"):
        model.with_structured_output(Person, method="json_mode", strict=True)
    with pytest.raises(TypeError, match="does not accept tools"):
        model.with_structured_output(Person, tools=[])
