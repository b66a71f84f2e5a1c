"""Reported usage that cannot be right: it is estimated, marked so, and charged at the reservation."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from core.actors import Actor, plan_of
from hypothesis import given, settings, strategies as st
from servers.chat_server import ChatServer, completion, says, whole

from podium.budget import Limits
from podium.conductor import Conductor
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Completion, Plan, Result, Sampling, Step
from podium.usage import Usage, estimate_tokens
from podium.workers import Card, ChatWorker, Endpoint, Price, Request

pytestmark = pytest.mark.anyio

PER_TOKEN = Price(input=0.0, output=1_000_000.0)
"""A dollar for each token written, so that the cost is the count the ledger charged."""
BOUND = 50
CHINESE = "人人生而自由，在尊严和权利上一律平等。" * 40
ONE = Plan((Step(0, "go"),))


def _worker(url: str, name: str = "m") -> ChatWorker:
    card = Card(name=name, price=PER_TOKEN, parts=frozenset({"image_url"}))
    return ChatWorker(
        "m", endpoint=Endpoint(url, provider="vllm"), card=card, sampling=Sampling(max_tokens=BOUND)
    )


async def _run(text: str, usage: Any, plan: Plan = ONE, **options: Any) -> Result:
    async with ChatServer(lambda _: whole({**completion(text), "usage": usage})) as server:
        conductor = Conductor(FixedPlanner(plan), [_worker(server.url)], retry=Retry(attempts=1), **options)
        return await conductor.run("What?")


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": 9},
        {"completion_tokens": 9},
        {"prompt_tokens": 9, "completion_tokens": 0},
        {"prompt_tokens": 9, "completion_tokens": -9},
        {"prompt_tokens": 9, "completion_tokens": "9"},
        {"prompt_tokens": 9, "completion_tokens": 10**30},
        "9 tokens",
    ],
)
async def test_usage_that_cannot_be_right_is_estimated_and_charged_at_the_reservation(usage: Any) -> None:
    """The tokens shown are an estimate and marked so; the bill is what was reserved."""
    result = await _run("forty-two", usage)
    assert result.status == "ok"
    assert result.usage.estimated
    assert result.usage.output_tokens == estimate_tokens("forty-two")
    assert result.estimated_usage == result.usage
    assert result.cost == BOUND


async def test_too_few_tokens_for_a_long_text_are_not_believed() -> None:
    """No vocabulary writes a thousand words in one token."""
    result = await _run("several words " * 500, {"prompt_tokens": 9, "completion_tokens": 1})
    assert result.usage.estimated
    assert result.cost is not None
    assert result.cost >= 1750


async def _ask(question: Any, usage: Any) -> Usage:
    async with ChatServer(lambda call: says(call, "forty-two", usage=usage)) as server:
        return (await Conductor(FixedPlanner(ONE), [_worker(server.url)]).run(question)).usage


async def test_too_few_tokens_for_a_long_prompt_are_not_believed() -> None:
    """No vocabulary reads a thousand words in one token."""
    question = "several words " * 500
    used = await _ask(question, {"prompt_tokens": 1, "completion_tokens": 3})
    assert used.estimated
    assert used.input_tokens >= 1750
    assert await _ask(question, {"prompt_tokens": 1100, "completion_tokens": 3}) == Usage(1100, 3)


async def test_pictures_need_no_tokens_for_the_text_of_their_data() -> None:
    """A picture is counted by its size, not by its characters."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    question = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}]
    assert await _ask(question, {"prompt_tokens": 85, "completion_tokens": 3}) == Usage(85, 3)


async def test_chinese_is_not_taken_for_a_quarter_of_its_characters() -> None:
    """A server that reports nothing is charged for more tokens than the text has characters."""
    result = await _run(CHINESE, None)
    assert result.usage.output_tokens > len(CHINESE)
    assert result.cost == result.usage.output_tokens


async def test_measured_and_estimated_calls_are_told_apart_in_a_total() -> None:
    """Of two calls, the total says which part was estimated."""
    reported = iter([{"prompt_tokens": 9, "completion_tokens": 3}, None])
    async with ChatServer(lambda call: says(call, "forty-two", usage=next(reported))) as server:
        plan = plan_of((0, "one", ()), (0, "two", (0,)))
        result = await Conductor(FixedPlanner(plan), [_worker(server.url)]).run("What?")
    first, second = result.outcomes
    assert (first.usage.estimated, second.usage.estimated) == (False, True)
    assert result.estimated_usage == second.usage
    assert "of them estimated" in result.explain()


async def test_an_answer_beyond_its_bound_is_charged_and_assumed_again() -> None:
    """The server ignores max_tokens once, so the next call reserves as much, and does not fit."""
    usage = {"prompt_tokens": 9, "completion_tokens": 400}
    plan = plan_of((0, "one", ()), (0, "two", (0,)))
    result = await _run("long", usage, plan, limits=Limits(output_tokens=700))
    first, second = result.outcomes
    assert (first.status, first.usage.output_tokens, first.cost) == ("ok", 400, 400)
    assert second.problem is not None
    assert second.problem.code == "limit"


async def test_a_planner_is_held_to_the_same_rule() -> None:
    """Its usage is estimated, and it is charged at its reservation."""
    text = '{"worker": 0, "subtask": "go", "access": []}'
    async with ChatServer(lambda call: says(call, text, usage=None)) as server:
        planner = ChatPlanner(_worker(server.url, "boss"))
        result = await Conductor(planner, [_worker(server.url)]).run("What?")
    proposal = result.proposals[0]
    assert proposal.usage.estimated
    assert proposal.usage.input_tokens > 100  # the planner's whole prompt, and not the question alone
    assert proposal.cost == BOUND


@pytest.mark.parametrize("usage", [Usage(10.5, 3), Usage(-1, 3), "10 and 3", Usage(9, 9, 99)])
async def test_a_worker_of_one_s_own_is_held_to_the_same_rule(usage: Any) -> None:
    """An answer whose usage is no usage is still an answer."""

    async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
        yield Completion("good", usage=usage)

    worker = Actor(Card(name="a", price=PER_TOKEN), act)
    result = await Conductor(FixedPlanner(ONE), [worker], journal=MemoryJournal()).run("What?")
    assert (result.answer, result.usage.estimated) == ("good", True)
    assert result.cost == Limits().answer_tokens


COUNTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10_000),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
)
NAMES = (
    *("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens"),
    *("cached_tokens", "reasoning_tokens", "thoughts_tokens", "cache_read_input_tokens"),
    *("cache_creation_input_tokens", "orchestration_input_tokens", "orchestration_output_tokens"),
)
FLAT = st.dictionaries(st.sampled_from(NAMES), COUNTS, max_size=6)
DETAILS = st.sampled_from(("prompt_tokens_details", "completion_tokens_details", "output_tokens_details"))
NESTED = st.builds(lambda flat, key, more: flat | {key: more}, FLAT, DETAILS, st.one_of(FLAT, COUNTS))
REPORTS = st.one_of(COUNTS, FLAT, NESTED)
TEXTS = st.one_of(
    st.just(CHINESE),
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=300),
    st.integers(1, 400).map(lambda words: "plain words " * words),
)


@pytest.mark.long
@given(usage=REPORTS, text=TEXTS)
@settings(max_examples=80, deadline=None)
async def test_no_report_makes_an_answer_cheaper_than_what_was_written(usage: Any, text: str) -> None:
    """Whatever the server says, the run ends, and is charged for a token of every 32 characters at least."""
    result = await _run(text, usage)
    if result.status != "ok":  # JSON that is none, as NaN: the answer itself cannot be read, and is charged
        assert result.outcomes[0].maybe_paid
    assert result.cost is not None
    written = len(text) - text.count(" ")
    assert result.cost >= max(1, (written - 256) / 32)
    if result.usage.estimated:
        assert result.cost >= max(BOUND, result.usage.output_tokens)
