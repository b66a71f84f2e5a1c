"""Says what a run with a changed plan keeps of its recorded results, and what it pays for again."""

from asyncio import get_running_loop
from typing import NamedTuple

from podium.budget.ledger import Ledger
from podium.budget.limits import Spend
from podium.execution.context import ConductorSettings, PreviousRound, RunContext, RunRequest
from podium.execution.scheduler import RoundScheduler
from podium.prompts.prompt import shown_step
from podium.run_state.actions import ActionLog
from podium.run_state.paid import paid_results_of
from podium.run_state.state import RunState
from podium.types.outcome import total_cost
from podium.types.plan import Plan
from podium.types.result import steps_of


class Preview(NamedTuple):
    """What a run with a changed plan keeps, and what it pays for again."""

    kept: int
    """The number of recorded results that are kept."""
    kept_cost: float | None
    """What they cost, in USD; `None` when unknown."""
    expected: Spend
    """What the calls of the other steps are expected to need. A list that is not known yet counts with one
    item, a loop with one turn, and a condition as met."""

    def __str__(self) -> str:
        kept = "" if self.kept_cost is None else f" (${self.kept_cost:.4f})"
        cost = "cost unknown" if self.expected.cost is None else f"about ${self.expected.cost:.4f}"
        calls = self.expected.calls
        told = (
            f"at least {calls} call{' is' if calls == 1 else 's are'} expected, {cost}"
            if calls
            else "nothing is called"
        )
        return f"{self.kept} recorded result{' is' if self.kept == 1 else 's are'} kept{kept}; {told}"


async def preview(settings: ConductorSettings, request: RunRequest, state: RunState, plan: Plan) -> Preview:
    """Return what a recorded run keeps if `plan` replaces the plan of its last round; nothing is called."""
    clock = get_running_loop().time
    paid = paid_results_of(state, settings.pool.names)
    number = max(state.rounds, default=1)
    context = RunContext(
        settings=settings,
        request=request,
        ledger=Ledger(settings.limits, clock() + settings.limits.seconds),
        policy=settings.policy,
        labels=request.labels,
        previous=_previous(state, number, request),
        paid_results=paid,
        actions=ActionLog(state.run_id, settings.pool.workers, recorded=paid.actions),
        recorded=_nothing,
        clock=clock,
        began=clock(),
    )
    kept, expected = RoundScheduler(context, number, last=True).preview(plan)
    return Preview(len(kept), total_cost(each.cost for each in kept), expected)


async def _nothing() -> None:
    """Record nothing."""


def _previous(state: RunState, number: int, request: RunRequest) -> PreviousRound:
    """Return what steps with "previous" on their access list see."""
    rounds = [each for each in state.rounds_so_far() if each.number < number]
    if not rounds or (plan := rounds[-1].plan) is None:
        return PreviousRound()
    good = [each for each in steps_of(rounds[-1]) if each.status == "ok"]
    names = request.context
    return PreviousRound(
        tuple(shown_step(plan, each.step, each.text, previous=True, names=names) for each in good)
    )
