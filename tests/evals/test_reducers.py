"""Reducers choose one of the answers they are shown, the same each time."""

from collections.abc import Sequence

import pytest
from contracts.worker_contract import WorkerContract

from podium.types import Message
from podium.workers import Request, StepInput, VisibleStep, Worker, complete
from podium_evals.errors import Unrecorded
from podium_evals.recorded import NO_ANSWER, Vote


def showing(outputs: Sequence[str], *, stream: bool = False) -> Request:
    visible = tuple(VisibleStep(number, "find", output) for number, output in enumerate(outputs))
    query = (Message("user", "which?"),)
    return Request(messages=query, step_input=StepInput("choose", visible, query), stream=stream)


class ReducerContract(WorkerContract):
    """A reducer's questions are the answers it is shown."""

    def asking(self, text: str, *, stream: bool = False) -> Request:
        return showing([text, text], stream=stream)

    @pytest.fixture
    def slow_worker(self) -> Worker:
        pytest.skip("choosing waits for nothing")


class TestVote(ReducerContract):
    @pytest.fixture
    def worker(self) -> Worker:
        return Vote()


@pytest.mark.parametrize(
    ("outputs", "chosen"),
    [
        (["red", "Blue.", "blue"], "Blue."),
        (["red", "blue"], "red"),
        ([NO_ANSWER, NO_ANSWER, "blue"], "blue"),
    ],
)
@pytest.mark.anyio
async def test_what_is_chosen(outputs: list[str], chosen: str) -> None:
    """Ties go to the earlier step; a step without an answer has no vote."""
    assert (await complete(Vote(), showing(outputs))).text == chosen


@pytest.mark.anyio
async def test_steps_without_answers_have_no_answer() -> None:
    answer = await complete(Vote(), showing([NO_ANSWER, ""]))
    assert (answer.text, answer.missing) == (NO_ANSWER, "no visible step has an answer")


@pytest.mark.anyio
async def test_a_reducer_needs_an_access_list() -> None:
    """Without one it has nothing to choose from."""
    with pytest.raises(Unrecorded, match="access list"):
        await complete(Vote(), showing([]))
