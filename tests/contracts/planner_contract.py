"""The contract of every planner. Subclass it as `Test…`, with the fixture.

class TestMine(PlannerContract):
    @pytest.fixture
    async def planner(self) -> AsyncIterator[Planner]: ...  # its text contains the question
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest

from podium import Card, PlanReader
from podium.planners import Planner, PlanRequest, PlanText
from podium.types.messages import read_query


@pytest.mark.anyio
class PlannerContract:
    questions: Sequence[str] = tuple(f"Why is it colour{n}?" for n in range(10, 20))
    """The questions, none of which contains another."""
    cards: tuple[Card, ...] = (Card(name="a", description="Writes."), Card(name="b", description="Writes."))
    heeds_question: bool = True
    """Whether the plan text contains the question."""
    streams: bool = True
    """Whether there are pieces where somebody reads along."""

    def asking(self, text: str, *, stream: bool = True) -> PlanRequest:
        return PlanRequest(query=read_query(text), cards=self.cards, max_steps=5, stream=stream)

    async def plan(self, planner: Planner, text: str, *, stream: bool = True) -> tuple[list[str], PlanText]:
        """Return the pieces and the plan text, and check that the plan text is last; other tasks may run."""
        pieces: list[str | PlanText] = []
        async with aclosing(planner.plan(self.asking(text, stream=stream))) as written:
            async for piece in written:
                pieces.append(piece)
                await anyio.lowlevel.checkpoint()
        *parts, whole = pieces
        assert isinstance(whole, PlanText)
        assert all(isinstance(part, str) for part in parts)
        return [str(part) for part in parts], whole

    @pytest.mark.parametrize("stream", [False, True])
    async def test_ends_in_exactly_one_plan_text(self, planner: Planner, *, stream: bool) -> None:
        """With a plan in it. Pieces, joined, are the text; where somebody reads along there are some."""
        async with planner:
            pieces, whole = await self.plan(planner, self.questions[0], stream=stream)
        request, reader = self.asking(self.questions[0]), PlanReader(workers=[c.name for c in self.cards])
        assert planner.read(request, whole.text, reader).steps
        assert not self.heeds_question or self.questions[0] in whole.text
        is_told = stream and self.streams
        assert pieces or not is_told
        assert "".join(pieces) in ((whole.text,) if is_told else (whole.text, ""))

    async def test_a_caller_may_stop_early(self, planner: Planner) -> None:
        """Closing a call after its first piece, and entering again, leaves nothing running."""
        tasks = asyncio.all_tasks()
        for _ in range(2):
            async with planner:
                async with planner, aclosing(planner.plan(self.asking(self.questions[0]))) as pieces:
                    await anext(pieces)
                _, whole = await self.plan(planner, self.questions[1])
        assert not self.heeds_question or self.questions[1] in whole.text
        with anyio.fail_after(5):
            while asyncio.all_tasks() - tasks:  # noqa: ASYNC110  (there is no event for the end of these tasks)
                await anyio.sleep(0.001)

    async def test_calls_at_once_do_not_mix(self, planner: Planner) -> None:
        """Calls that take turns get the texts that calls one after the other get."""
        at_once: dict[str, tuple[list[str], PlanText]] = {}

        async def ask(text: str) -> None:
            at_once[text] = await self.plan(planner, text)

        async with planner:
            async with anyio.create_task_group() as group:
                for text in self.questions:
                    group.start_soon(ask, text)
            later = {text: await self.plan(planner, text) for text in self.questions}
        alone = {text: whole.text for text, (_, whole) in later.items()}
        for written in (at_once, later):
            assert {text: whole.text for text, (_, whole) in written.items()} == alone
            told = {text: "".join(pieces) for text, (pieces, _) in written.items()}
            assert told == (alone if self.streams else dict.fromkeys(alone, ""))
        assert not self.heeds_question or all(text in plan for text, plan in alone.items())
