"""From a query to a valid plan: ask the planner, read, repair once, fall back.

A bad plan is data: it is quoted to its planner once, and then another planner takes over.
Each call is reserved in the run's ledger before it is made. Knows how plans are read, not
how they are carried out.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import NamedTuple, get_args

import anyio

from podium.budget.spend import Remaining
from podium.errors import (
    PlanError,
    PlanForbidden,
    PlanInvalid,
    PlanInvalidCode,
    PlannerError,
    PlanSyntaxCode,
    PlanSyntaxError,
    PodiumError,
    WorkerTimeout,
)
from podium.execution.run_context import RunContext
from podium.plan_text.parser import PlanReader
from podium.planners.planner import Planner, PlanRequest, PlanText, Turn
from podium.planners.planner_call import PlannerCall
from podium.planners.planner_prompt import repair_feedback
from podium.run.early_start import EarlyStart
from podium.secrets.boundary import Boundary
from podium.types.events import PlanDelta, PlannerEnded, PlannerStarted
from podium.types.messages import storable
from podium.types.outcome import Problem, Proposal
from podium.types.plan import Plan, Step
from podium.workers.pool import take
from podium.workers.worker import pieces_of
from podium.workers.worst_case import answer_bound

_BAD_PLANS = (*get_args(PlanSyntaxCode), *get_args(PlanInvalidCode), PlanForbidden.code)
MAX_QUOTED_CHARS = 16_000
"""Most of a bad plan text that its planner is shown again, in characters from its end."""


_AMPLE = Remaining()


class _Asked(NamedTuple):
    """What one call of a planner came to: a plan, or what is wrong with its text."""

    plan: Plan | None
    text: str
    error: PodiumError | None
    made: bool
    """Whether the planner was asked at all."""


@dataclass(slots=True)
class PlanRequester:
    """The making of one round's plan.

    `on_step` takes each step that may start before its plan is whole; a plan that replaces such
    steps may follow.
    """

    context: RunContext
    round: int
    turns: tuple[Turn, ...] = ()
    """What earlier rounds planned, and what came of it."""
    on_step: Callable[[Step], None] | None = None
    proposals: list[Proposal] = field(default_factory=list)
    """Every text written, in order, and the calls that were not made."""

    async def make(self) -> Plan | None:
        """Return the plan; `None` when nobody gave one.

        Raises:
            PodiumError: what went wrong with the planner, when strictness was asked for.
        """
        if self.on_step is not None:
            self.on_step = EarlyStart(self.context, self.on_step).add
        known = self._known()
        asked = known or await self._ask(self.context.settings.planner, self.turns)
        if asked.error is not None and self.context.settings.strict:
            raise asked.error
        self.on_step = None
        if asked.made and isinstance(asked.error, PlanError) and len(self.proposals) < 2:
            repair = Turn(asked.text[-MAX_QUOTED_CHARS:], repair_feedback(asked.error))
            asked = await self._ask(self.context.settings.planner, (*self.turns, repair))
        if asked.error is not None and not self.turns:
            asked = await self._ask(self.context.settings.fallback, ())
        return asked.plan

    def _known(self) -> _Asked | None:
        """Return what the planner wrote before the run was taken up, if that was a bad plan."""
        last = self.proposals[-1] if self.proposals else None
        if (
            last is None
            or self.context.settings.strict
            or last.problem is None
            or last.problem.code not in _BAD_PLANS
        ):
            return None
        return _Asked(None, last.text, PlanError(last.problem.message), made=True)

    async def _ask(self, planner: Planner, turns: tuple[Turn, ...]) -> _Asked:
        context, began = self.context, self.context.clock()
        limit = context.settings.limits.planner_seconds
        written, held = PlannerCall(planner), list[anyio.Semaphore]()
        plan: Plan | None = None
        error: PodiumError | None = None
        try:
            with anyio.move_on_after(limit) as scope, Boundary(f"planner {planner.name!r}", PlannerError):
                order = order_of(context, planner)
                held = await take(*_slots(context, planner))
                plan = await self._call(written, order, turns, began + limit)
            if scope.cancelled_caught:
                error = _late(planner, limit, written)
        except PodiumError as caught:
            error = caught
        finally:
            for slot in held:
                slot.release()
            stopped = Problem("cancelled", "the run was stopped") if plan is None else None
            problem = Problem.of(error) if error is not None else stopped
            seconds = context.clock() - began
            self._book(written, written.proposal(context.request.query, problem, error, seconds))
        return _Asked(plan, written.text, error, written.is_sent)

    async def _call(
        self, written: PlannerCall, order: Sequence[int], turns: tuple[Turn, ...], deadline: float
    ) -> Plan:
        """Set the call's worst case aside, make it, and judge what it came to."""
        context, planner = self.context, written.planner
        request = self._request(planner, order, turns, deadline)
        worst = planner.worst_case(request, context.settings.limits.answer_tokens)
        written.reserved = context.ledger.reserve(worst)
        context.tell(PlannerStarted, round=self.round, planner=planner.name, reserved=worst)
        if context.recorded is not None:
            await context.recorded()
        written.is_sent = True
        reader = PlanReader(
            workers=[card.name for card in request.cards],
            max_steps=request.max_steps,
            previous=bool(context.previous.visible),
        )
        with context.during(self.round):
            await self._read(written, pieces_of(planner.plan(request), "plan"), reader, order)
        return self._judge(written, reader, order)

    async def _read(
        self,
        written: PlannerCall,
        text: AsyncGenerator[str | PlanText, None],
        reader: PlanReader,
        order: Sequence[int],
    ) -> None:
        context, name = self.context, written.planner.name
        async with aclosing(text) as pieces:
            async for piece in pieces:
                if isinstance(piece, PlanText):
                    written.whole = piece
                    return
                if not isinstance(piece, str):
                    raise PlannerError(f"planner {name!r} yielded a {type(piece).__name__}, not text")
                written.pieces.append(storable(piece))
                if context.request.stream:
                    context.tell(PlanDelta, round=self.round, planner=name, text=written.pieces[-1])
                for step in reader.feed(piece):
                    if self.on_step is not None:
                        self.on_step(replace(step, worker=order[step.worker]))

    def _request(
        self, planner: Planner, order: Sequence[int], turns: tuple[Turn, ...], deadline: float
    ) -> PlanRequest:
        context, most = self.context, self.context.policy.most_steps
        request = PlanRequest(
            query=context.request.query,
            cards=tuple(context.settings.pool.cards[number] for number in order),
            max_steps=min(context.settings.limits.plan_steps, most or context.settings.limits.plan_steps),
            turns=turns,
            may_keep=bool(self.turns),
            shows_question=context.shows_question,
            max_tokens=None if planner.card is None else answer_bound(planner.card, context.ledger),
            deadline=min(deadline, context.ledger.deadline),
            middleware=context.request.middleware,
        )
        return replace(request, left=_scarce(context, request.asked_steps))

    def _judge(self, written: PlannerCall, reader: PlanReader, order: Sequence[int]) -> Plan:
        """Return the plan of a whole text, numbered as the pool is, as the policy lets it pass."""
        if written.whole is None:
            raise PlannerError(f"planner {written.planner.name!r} ended without a PlanText")
        if not written.pieces:
            reader.feed(written.whole.text)
        if written.whole.finish_reason == "length":
            message = "the text was cut at the planner's token limit: write it shorter"
            raise PlanSyntaxError("truncated", message, position=len(written.text))
        plan = reader.close().renumbered(order)
        if not plan.steps and not self.turns:
            message = "there is no previous answer to keep yet: write at least one step"
            raise PlanInvalid("nothing_to_keep", message)
        context = self.context
        cards, previous = context.settings.pool.cards, context.previous.labels
        checked = context.policy.check(plan, cards, context.labels, previous)
        if checked is not plan:
            written.changed = checked.why
        return checked

    def _book(self, written: PlannerCall, proposal: Proposal) -> None:
        if written.reserved is not None:
            self.context.ledger.settle(written.reserved, written.spent(proposal))
        self.proposals.append(proposal)
        self.context.tell(PlannerEnded, round=self.round, proposal=proposal)


def order_of(context: RunContext, planner: Planner) -> list[int]:
    """Return the workers a planner is shown, as numbers of the pool: those that may work on the run's data.

    Raises:
        PlanForbidden: none may, or the planner may not see the data itself.
    """
    policy, cards, labels = context.policy, context.settings.pool.cards, context.labels
    order = list(planner.order(len(cards), context.request.run_id))
    if policy.silent:
        return order
    if planner.card is not None:
        policy.everywhere.guard(planner.card, labels)
    admitted = [number for number in order if policy.admits(cards[number], labels)]
    if not admitted:
        raise PlanForbidden("the policy lets no worker of the pool work on what this run is about")
    return admitted if planner.reads_cards else order


def _slots(context: RunContext, planner: Planner) -> list[anyio.Semaphore | None]:
    """Return what bounds the calls of a planner that is a worker of the pool, too."""
    card, pool = planner.card, context.settings.pool
    if card is None or card.concurrency is None:
        return []
    return [pool.slot(number) for number, other in enumerate(pool.cards) if other is card]


def _scarce(context: RunContext, asked_steps: int) -> Remaining | None:
    """Return what is left of all that a plan could use up; `None` when there is nothing of the kind."""
    left, ample = context.ledger.left, 2 * asked_steps
    steps = None if left.steps is None or left.steps >= ample else left.steps
    calls = None if left.calls is None or left.calls >= ample else left.calls
    scarce = Remaining(steps, calls, left.input_tokens, left.output_tokens, left.cost)
    return None if scarce == _AMPLE else scarce.rounded


def _late(planner: Planner, limit: float, written: PlannerCall) -> WorkerTimeout:
    did = "did not finish"
    if written.reserved is None:
        did = "had no free slot"
    elif not written.is_sent:
        did = "was not asked: the journal did not record the call"
    message = f"planner {planner.name!r} {did} within {limit:g} s (Limits.planner_seconds)"
    return WorkerTimeout(message, maybe_paid=written.is_sent)
