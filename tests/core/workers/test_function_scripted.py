"""Workers made of functions, and the public test double."""

import functools
import threading
from collections.abc import Callable

import anyio
import pytest

from podium import Card, FunctionWorker, Message, ScriptedWorker
from podium.errors import ConfigError, WorkerFailed, WorkerRefused, WorkerUnavailable
from podium.types import Completion
from podium.usage import Usage
from podium.workers import FREE, Request, StepInput, Worker, complete

pytestmark = pytest.mark.anyio


def request(subtask: str = "do it", *, stream: bool = False, step_input: StepInput | None = None) -> Request:
    return Request(messages=(Message("user", subtask),), step_input=step_input, stream=stream)


async def answer(worker: Worker, sent: Request | None = None) -> Completion:
    return await complete(worker, sent or request())


async def test_a_plain_function_runs_in_a_thread() -> None:
    def where(_: StepInput) -> str:
        return str(threading.get_ident())

    async def here(_: StepInput) -> str:
        await anyio.lowlevel.checkpoint()
        return str(threading.get_ident())

    assert (await answer(FunctionWorker(where))).text != str(threading.get_ident())
    for function in (here, functools.partial(here)):
        assert (await answer(FunctionWorker(function))).text == str(threading.get_ident())


async def test_a_function_may_state_what_it_cost() -> None:
    """A `Completion` is handed on as it is; text is made storable where it comes in."""
    stated = Completion("text", usage=Usage(1, 2), cost=0.5)
    assert await answer(FunctionWorker(lambda _: stated)) == stated
    assert (await answer(FunctionWorker(lambda _: "a\0b\ud800"))).text == "a\ufffdb\ufffd"


async def test_what_a_function_raises_is_attributed_to_it() -> None:
    """The original is the cause, and may have been paid; a function may say itself how it failed."""

    def fail(step: StepInput) -> str:
        raise WorkerRefused("not today") if step.subtask == "refuse" else KeyError("gone")

    with pytest.raises(WorkerFailed, match="'fail' raised KeyError: 'gone'") as caught:
        await answer(FunctionWorker(fail))
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.maybe_paid
    with pytest.raises(WorkerRefused, match="not today"):
        await answer(FunctionWorker(fail), request("refuse"))


@pytest.mark.parametrize("wrong", [None, b"bytes"])
async def test_what_is_no_text_is_a_failure(wrong: object) -> None:
    function: Callable[[StepInput], str] = lambda _: wrong  # type: ignore[return-value,assignment]  # noqa: E731
    with pytest.raises(WorkerFailed, match="return the answer as text"):
        await answer(FunctionWorker(function))


async def test_the_default_card_is_the_function_s() -> None:
    """Its name and docstring are its card, its price unknown unless it is stated, in one place."""

    def weigh(_: StepInput) -> str:
        """Weighs things."""
        return "1 kg"

    card = FunctionWorker(weigh).card
    assert (card.name, card.description, card.price) == ("weigh", "Weighs things.", None)
    assert FunctionWorker(weigh, price=FREE).card.price == FREE
    assert FunctionWorker(weigh, card=Card(name="scales")).card.name == "scales"
    with pytest.raises(ConfigError, match="card"):
        FunctionWorker(weigh, card=Card(name="a"), price=FREE)


async def test_a_table_of_replies() -> None:
    worker = ScriptedWorker("double", {"apple": "red", "app": "phone", "empty": ""})
    assert (await answer(worker, request("an apple"))).text == "red"
    assert (await answer(worker, request("an app"))).text == "phone"
    assert (await answer(worker, request("empty"))).text == ""
    with pytest.raises(WorkerFailed, match="no scripted reply of 'double' fits 'pear'"):
        await answer(worker, request("pear"))
    with pytest.raises(WorkerUnavailable, match="down"):
        await answer(ScriptedWorker("double", {"": WorkerUnavailable("down")}))
