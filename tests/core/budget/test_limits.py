"""What a call may come to at most, answers that are bounded, and prices that must be known."""

import pytest

from podium.budget import Limits, Spend
from podium.errors import ConfigError
from podium.types import Constraint, Message, Sampling
from podium.workers import (
    FREE,
    Card,
    ChatWorker,
    Endpoint,
    Gather,
    Price,
    Request,
    ScriptedWorker,
    StepInput,
    Worker,
)
from podium.workers.pool import check_prices
from podium.workers.simple import FunctionWorker
from podium.workers.worker import PER_ATTACHMENT, PER_MESSAGE, PER_REQUEST, most_tokens

pytestmark = pytest.mark.anyio
PRICE = Price(input=1.0, output=10.0)
AROUND = PER_REQUEST + PER_MESSAGE


def _request(text: str = "x" * 1000, **sampling: int) -> Request:
    return Request(messages=(Message("user", text),), sampling=Sampling(**sampling))  # type: ignore[arg-type]


def _chat(price: Price | None = PRICE, **sampling: int) -> ChatWorker:
    endpoint = Endpoint("http://127.0.0.1:1/v1", provider="vllm")
    defaults = Sampling(**sampling)  # type: ignore[arg-type] # a test names them right
    return ChatWorker("m", endpoint=endpoint, card=Card(name="m", price=price), sampling=defaults)


def _echo(step_input: StepInput) -> str:
    return step_input.subtask


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ({"steps": 0}, "limit steps is 0: it must be above 0, and a whole number"),
        ({"calls": 1.5}, "limit calls is 1.5: it must be above 0, and a whole number"),
        ({"seconds": -1.0}, "limit seconds is -1.0: it must be above 0, and a number"),
        ({"cost": "1"}, "limit cost is '1': it must be above 0, and a number"),
        ({"unpriced": -0.1}, "limit unpriced is -0.1: it must be 0 or more, and a number"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(limit: dict[str, object], told: str) -> None:
    """The message names the limit, its value, and which values it takes."""
    with pytest.raises(ConfigError) as caught:
        Limits(**limit)  # type: ignore[arg-type]
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("x" * 1000, 800),
        ("ab" + "日本" * 5, 26),
        (
            ({"type": "text", "text": "abcd"}, {"type": "image_url", "image_url": {"url": "u" * 9**5}}),
            4 + PER_ATTACHMENT,
        ),
        (({"type": "file", "file": {"file_data": "u" * 100_000}},), 80_000),
        (({"type": "input_audio"},), PER_ATTACHMENT),
    ],
)
def test_a_prompt_is_bounded_by_its_bytes(content: object, tokens: int) -> None:
    """Four tokens for five bytes, and pictures by the piece."""
    bound = most_tokens((Message("user", content),))  # type: ignore[arg-type]
    assert tokens <= bound - AROUND <= tokens + 40


def test_what_else_is_sent_counts_too() -> None:
    """Calls of tools and forms that the server may put into the prompt."""
    call = {"id": "1", "function": {"name": "f", "arguments": "y" * 400}}
    assert most_tokens((Message("assistant", "", (call,)),)) >= 200
    form = Constraint("json", {"type": "object", "description": "z" * 400})
    assert most_tokens((Message("user", ""),), form) - most_tokens((Message("user", ""),)) >= 200


@pytest.mark.parametrize(
    ("worker", "request_", "written"),
    [
        (_chat(), _request(), 4096),
        (_chat(max_tokens=7), _request(max_tokens=9), 9),
        (ScriptedWorker(Card(name="s", price=PRICE), "x"), _request(max_tokens=3), 3),
    ],
)
def test_the_worst_case_is_prompt_and_answer_at_the_cards_price(
    worker: Worker, request_: Request, written: int
) -> None:
    """An answer is as long as the request, else the worker, else the limits let it be."""
    read = 800 + AROUND
    assert worker.worst_case(request_, 4096) == Spend(1, read, written, (read + 10 * written) / 1e6)


def test_work_that_costs_nothing_costs_nothing() -> None:
    """A free model still writes tokens; plain code does not; and unknown is not free."""
    free, unknown = _chat(FREE).worst_case(_request(), 10), _chat(None).worst_case(_request(), 10)
    assert free is not None
    assert unknown is not None
    assert (free.output_tokens, free.cost, unknown.output_tokens, unknown.cost) == (10, 0.0, 10, None)
    assert Gather().worst_case(_request(), 10) == Spend(1)
    assert FunctionWorker(_echo, price=FREE).worst_case(_request(), 10) == Spend(1)
    assert FunctionWorker(_echo).worst_case(_request(), 10) == Spend(1, cost=None)
    paid = FunctionWorker(_echo, price=PRICE).worst_case(_request(), 10)
    assert paid is not None
    assert paid.output_tokens == 10


def test_a_cost_limit_demands_prices_or_a_choice() -> None:
    """The error names who has none, and both remedies."""
    cards = [Card(name="b"), Card(name="a"), Card(name="c", price=PRICE), Card(name="d", price=FREE), None]
    with pytest.raises(ConfigError, match=r"'a', 'b'.*0 if it costs nothing.*Limits\.unpriced"):
        check_prices(Limits(cost=1.0), cards)
    check_prices(Limits(), cards)
    check_prices(Limits(cost=1.0, unpriced=0.0), cards)
    check_prices(Limits(cost=1.0), cards[2:])
