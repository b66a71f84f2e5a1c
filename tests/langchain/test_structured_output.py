"""Forms of a conductor as a chat model: what is cut or missing is an error, and no guess."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from servers.chat_server import Call, ChatServer, Reply, says
from typing_extensions import TypedDict

from langchain_podium import ChatPodium, as_worker
from podium import Conductor, Plan, Price, ScriptedWorker, Step
from podium.errors import AnswerCut, AnswerRefused
from podium.planners import FixedPlanner
from podium.types import Result

pytestmark = pytest.mark.anyio


class Person(BaseModel):
    """A person."""

    name: str


SCHEMA = {"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}}
PLAN = Plan((Step(0, "Answer."),))
FORMS = pytest.mark.parametrize("form", [Person, SCHEMA], ids=["model", "schema"])


def _over(worker: Any) -> ChatPodium:
    return ChatPodium(conductor=Conductor(FixedPlanner(PLAN), [worker]))


@pytest.mark.parametrize(
    ("form", "text"),
    [(Person, '{"name": "Ad'), (SCHEMA, 'It is:\n```json\n{"name": "Ad')],
)
async def test_text_that_is_cut_is_an_error(form: Any, text: str) -> None:
    """LangChain's parsers would complete it: to a person called Ad."""
    asks = _over(ScriptedWorker("writer", text)).with_structured_output(form, method="json_mode")
    with pytest.raises(OutputParserException):
        await asks.ainvoke("Who?")
    raw = _over(ScriptedWorker("writer", text)).with_structured_output(
        form, method="json_mode", include_raw=True
    )
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

    def cut(call: Call) -> Reply:
        made = {"id": "1", "type": "function", "function": {"name": "Person", "arguments": '{"name": "Ad'}}
        return says(call, "", tool_calls=[made])

    async with ChatServer(cut) as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0)
        with pytest.raises(OutputParserException, match="cut"):
            await _over(as_worker(model)).with_structured_output(form).ainvoke("Who?")


class Place(TypedDict):
    """A place."""

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
        function = {"name": "Place", "arguments": said}
        if method != "function_calling":
            return says(call, said)
        return says(call, "", tool_calls=[{"id": "1", "type": "function", "function": function}])

    async with ChatServer(reply) as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0)
        asks = _over(as_worker(model)).with_structured_output(form, method=method)
        with pytest.raises(OutputParserException, match="'country' is a required property"):
            await asks.ainvoke("Where?")
        assert await asks.ainvoke("Where?") == {"city": "Paris", "country": "France"}


ENDS = [("length", AnswerCut.code), ("content_filter", AnswerRefused.code)]


class City(BaseModel):
    """A city."""

    name: str


def _form(model: ChatOpenAI) -> Runnable[Any, Any]:
    return model.with_structured_output(City, method="json_schema")


async def _run(
    reply: Callable[[Call], Reply], made: Callable[[ChatOpenAI], Runnable[Any, Any]]
) -> tuple[Result, int]:
    async with ChatServer(reply) as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0)
        worker = as_worker(made(model), name="form", price=Price(input=1, output=1))
        result = await Conductor(FixedPlanner(Plan((Step(0, "Which?"),))), [worker]).run("Q?")
        return result, len(server.calls)


@pytest.mark.parametrize(("finish", "code"), ENDS)
async def test_an_answer_that_cannot_be_parsed_is_told_by_its_end(finish: str, code: str) -> None:
    result, calls = await _run(lambda call: says(call, '{"name": "Pa', finish_reason=finish), _form)
    (outcome,) = result.outcomes
    assert (outcome.status, outcome.problem.code, calls) == ("failed", code, 1)
