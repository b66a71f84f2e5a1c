"""The contract of every worker. Subclass it as `Test…`, with the two fixtures.

class TestMine(WorkerContract):
    @pytest.fixture
    async def worker(self) -> AsyncIterator[Worker]: ...  # answers with text that contains the question

    @pytest.fixture
    async def slow_worker(self) -> AsyncIterator[Worker]: ...  # does not answer within the test

A worker that does not accept any text overrides the questions or the form of the request. A worker that
cannot be slow skips in `slow_worker`, with the reason.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import anyio
import pytest

from podium import Message
from podium.types import Completion
from podium.workers import Request, Worker, complete


def question(text: str, *, stream: bool = False) -> Request:
    return Request(messages=(Message("user", text),), stream=stream)


async def collect(worker: Worker, request: Request) -> list[str | Completion]:
    async with aclosing(worker.call(request)) as pieces:
        return [piece async for piece in pieces]


async def until_settled(tasks: set[asyncio.Task[object]]) -> None:
    with anyio.fail_after(5):
        while asyncio.all_tasks() - tasks:  # noqa: ASYNC110  (there is no event for the end of these tasks)
            await anyio.sleep(0.001)


@pytest.mark.anyio
class WorkerContract:
    questions: Sequence[str] = ("red", "blue", *(f"colour{n}" for n in range(10, 20)))
    """Texts that the worker can answer, none of which contains another."""
    begins_within: float = 0.05
    """Seconds after which a call is cancelled; it must have begun by then."""

    def asking(self, text: str, *, stream: bool = False) -> Request:
        """Return a request for an answer to `text`."""
        return question(text, stream=stream)

    async def test_ends_in_exactly_one_completion(self, worker: Worker) -> None:
        """The last thing a call yields is its completion, and the only one; what is streamed is its text."""
        async with worker:
            for stream in (False, True):
                *pieces, last = await collect(worker, self.asking(self.questions[0], stream=stream))
                assert isinstance(last, Completion)
                assert self.questions[0] in last.text
                assert all(isinstance(piece, str) for piece in pieces)
                assert not stream or "".join(map(str, pieces)) == last.text

    async def test_a_call_comes_to_no_more_than_its_worst_case(self, worker: Worker) -> None:
        """What is set aside for a call covers what it reports, which may be a fixed figure."""
        request = self.asking(self.questions[0] + ", and nothing else" * 25)
        worst = worker.worst_case(request, 4096)
        assert worst is not None
        async with worker:
            usage = (await complete(worker, request)).usage
        assert worst.calls == 1
        assert usage.input_tokens <= worst.input_tokens
        assert usage.output_tokens <= worst.output_tokens
        price = worker.card.price
        assert (worst.cost is None) == (price is None)
        assert price is None or worst.cost is None or price.cost(usage) <= worst.cost

    async def test_calls_at_once_do_not_mix(self, worker: Worker) -> None:
        answers: dict[str, str] = {}

        async def ask(text: str) -> None:
            answers[text] = (await complete(worker, self.asking(text))).text

        async with worker, anyio.create_task_group() as group:
            for text in self.questions:
                group.start_soon(ask, text)
        assert [text for text in self.questions if text not in answers[text]] == []

    async def test_a_caller_may_stop_early(self, worker: Worker) -> None:
        """Closing a call after its first piece, and entering again, leaves nothing running."""
        tasks = asyncio.all_tasks()
        for _ in range(2):
            async with worker:
                async with worker, aclosing(worker.call(self.asking(self.questions[0], stream=True))) as call:
                    await anext(call)
                assert (await complete(worker, self.asking(self.questions[1]))).text
        await until_settled(tasks)

    async def test_cancel_ends_a_call(self, slow_worker: Worker) -> None:
        """A cancelled call ends soon, yields no completion and leaves nothing running."""
        tasks = asyncio.all_tasks()
        pieces: list[str | Completion] = []
        for stream in (False, True):
            request = self.asking(self.questions[0], stream=stream)
            with anyio.fail_after(5):
                async with slow_worker:
                    with anyio.move_on_after(self.begins_within) as scope:
                        async with aclosing(slow_worker.call(request)) as call:
                            async for piece in call:
                                pieces.append(piece)  # noqa: PERF401  (kept when the call is cancelled)
            assert scope.cancelled_caught
        assert not any(isinstance(piece, Completion) for piece in pieces)
        await until_settled(tasks)
