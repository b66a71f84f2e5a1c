"""Structured answers that the client of OpenAI parses, and cannot."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from servers.chat_server import Call, ChatServer, Reply, says

from langchain_podium import as_worker
from podium import Conductor, Plan, Price, Step
from podium.errors import AnswerCut, AnswerRefused
from podium.planners import FixedPlanner
from podium.types import Result

pytestmark = pytest.mark.anyio

ENDS = [("length", AnswerCut.code), ("content_filter", AnswerRefused.code)]


class City(BaseModel):
    """A city."""

    name: str


def cut(call: Call) -> Reply:
    """Return the beginning of an answer, cut at the token limit."""
    return says(call, '{"name": "Pa', finish_reason="length")


def form(model: ChatOpenAI) -> Runnable[Any, Any]:
    """Return a model whose answers the client of OpenAI parses."""
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
    """It is paid for once: another call would end in the same way."""
    result, calls = await _run(lambda call: says(call, '{"name": "Pa', finish_reason=finish), form)
    (outcome,) = result.outcomes
    assert outcome.problem is not None
    assert (outcome.status, outcome.problem.code, calls) == ("failed", code, 1)


async def test_the_tokens_of_a_cut_answer_are_on_the_bill() -> None:
    """As the server reported them."""
    result, _ = await _run(cut, form)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (211, 7)
    assert not result.usage.estimated
    assert result.cost == pytest.approx(218e-6)


async def test_calls_before_the_cut_answer_are_on_the_bill_too() -> None:
    """A chain pays for each of its calls, and for those that it made again itself."""

    def retried(model: ChatOpenAI) -> Runnable[Any, Any]:
        return form(model).with_retry(stop_after_attempt=2, wait_exponential_jitter=False)

    twice, calls = await _run(cut, retried)
    assert (calls, twice.usage.total_tokens, twice.usage.estimated) == (2, 436, False)
