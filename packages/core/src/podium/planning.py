"""From a query to a valid plan: ask the planner, read, repair once, fall back.

A bad plan is data: it is quoted to its planner once, and then another planner takes over.
Knows how plans are read, not how they are carried out.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import anyio

from podium.boundary import Boundary
from podium.errors import (
    PlanError,
    PlanInvalid,
    PlannerError,
    PlanSyntaxError,
    PodiumError,
    WorkerError,
    WorkerTimeout,
)
from podium.events import PlanDelta, PlanRejected
from podium.messages import Message, estimate_usage, storable
from podium.outcome import Problem, Proposal
from podium.parse import MAX_CHARS, PlanReader
from podium.plan import Plan, Step
from podium.planners.planner import Planner, PlanRequest, PlanText, Turn
from podium.planners.task import repair_feedback
from podium.setting import Setting
from podium.usage import Usage

MAX_QUOTED_CHARS = 16_000
"""Most of a bad plan text that its planner is shown again, in characters from its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planners:
    """Who plans, and what happens when that goes wrong."""

    first: Planner
    fallback: Planner
    """Takes over when `first` gave no usable plan after one repair."""
    strict: bool = False
    """Raise what went wrong in place of repairing and falling back."""


class _Asked(NamedTuple):
    """What one call of a planner came to: a plan, or what is wrong with its text."""

    plan: Plan | None
    text: str
    error: PodiumError | None


@dataclass(slots=True)
class Planning:
    """The making of one round's plan.

    `on_step` takes each step that is whole before its plan is; a plan that replaces such
    steps may follow.
    """

    setting: Setting
    planners: Planners
    round: int
    turns: tuple[Turn, ...] = ()
    """What earlier rounds planned, and what came of it."""
    on_step: Callable[[Step], None] | None = None
    proposals: list[Proposal] = field(default_factory=list)
    """Every text written, in order."""

    async def make(self) -> Plan | None:
        """Return the plan; `None` when nobody gave one.

        Raises:
            PodiumError: what went wrong with the planner, when strictness was asked for.
        """
        asked = await self._ask(self.planners.first, self.turns)
        if asked.error is not None and self.planners.strict:
            raise asked.error
        self.on_step = None
        if isinstance(asked.error, PlanError):
            repair = Turn(asked.text[-MAX_QUOTED_CHARS:], repair_feedback(asked.error))
            asked = await self._ask(self.planners.first, (*self.turns, repair))
        if asked.error is not None and not self.turns:
            asked = await self._ask(self.planners.fallback, ())
        return asked.plan

    async def _ask(self, planner: Planner, turns: tuple[Turn, ...]) -> _Asked:
        limit, began = self.setting.limits.planner_seconds, anyio.current_time()
        text = _Text(planner)
        plan: Plan | None = None
        error: PodiumError | None = None
        try:
            with anyio.move_on_after(limit) as scope, Boundary(f"planner {planner.name!r}", PlannerError):
                plan = await self._read(text, turns, began + limit)
            if scope.cancelled_caught:
                message = (
                    f"planner {planner.name!r} did not finish within {limit:g} s (Limits.planner_seconds)"
                )
                error = WorkerTimeout(message, maybe_paid=True)
        except PodiumError as caught:
            error = caught
        finally:
            stopped = Problem("cancelled", "the run was stopped") if plan is None else None
            problem = Problem.of(error) if error is not None else stopped
            self._book(text.proposal(self.setting.query, problem, error, anyio.current_time() - began))
        return _Asked(plan, text.written, error)

    async def _read(self, text: "_Text", turns: tuple[Turn, ...], deadline: float) -> Plan:
        """Read the planner's text as it comes, and hand on the steps that are whole."""
        setting, planner = self.setting, text.planner
        order = planner.order(len(setting.pool), setting.run_id)
        request = PlanRequest(
            query=setting.query,
            cards=tuple(setting.pool.cards[number] for number in order),
            max_steps=setting.limits.plan_steps,
            turns=turns,
            may_keep=bool(self.turns),
            shows_question=setting.show_question,
            deadline=min(deadline, setting.ledger.deadline),
        )
        reader = PlanReader(workers=[card.name for card in request.cards], max_steps=request.max_steps)
        async with aclosing(planner.plan(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, PlanText):
                    text.whole = piece
                    break
                if not isinstance(piece, str):
                    raise PlannerError(f"planner {planner.name!r} yielded a {type(piece).__name__}, not text")
                text.pieces.append(storable(piece))
                if setting.stream:
                    setting.tell(PlanDelta, round=self.round, planner=planner.name, text=text.pieces[-1])
                for step in reader.feed(piece):
                    if self.on_step is not None:
                        self.on_step(replace(step, worker=order[step.worker]))
        return self._judge(text, reader).renumbered(order)

    def _judge(self, text: "_Text", reader: PlanReader) -> Plan:
        if text.whole is None:
            raise PlannerError(f"planner {text.planner.name!r} ended without saying so")
        if not text.pieces:
            reader.feed(text.whole.text)
        if text.whole.finish_reason == "length":
            message = "the text was cut at the planner's token limit: write it shorter"
            raise PlanSyntaxError("truncated", message, position=len(text.written))
        plan = reader.close()
        if not plan.steps and not self.turns:
            message = "there is no previous answer to keep yet: write at least one step"
            raise PlanInvalid("nothing_to_keep", message)
        return plan

    def _book(self, proposal: Proposal) -> None:
        self.proposals.append(proposal)
        if proposal.problem is not None:
            self.setting.tell(
                PlanRejected,
                round=self.round,
                planner=proposal.planner,
                text=proposal.text,
                problem=proposal.problem,
            )


class _Text:
    """What one planner has written so far."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.pieces: list[str] = []
        self.whole: PlanText | None = None

    @property
    def written(self) -> str:
        """As much of it as a plan's text may have."""
        text = self.whole.text if self.whole is not None else "".join(self.pieces)
        return storable(text[:MAX_CHARS])

    def proposal(
        self,
        query: Sequence[Message],
        problem: Problem | None,
        error: PodiumError | None,
        seconds: float,
    ) -> Proposal:
        usage, cost = self._bill(query, error)
        return Proposal(
            planner=self.planner.name,
            text=self.written,
            why="" if self.whole is None else self.whole.why,
            problem=problem,
            usage=usage,
            cost=cost,
            seconds=seconds,
        )

    def _bill(self, query: Sequence[Message], error: PodiumError | None) -> tuple[Usage, float | None]:
        """A text that did not end may have been paid for; nobody said how much."""
        if self.whole is not None:
            return self.whole.usage, self.whole.cost
        if not self.pieces and isinstance(error, WorkerError) and not error.maybe_paid:
            return Usage(), 0.0
        return estimate_usage(query, self.written), None
