"""Keeps a part of a run's limits for the steps that the answer needs.

While the limits do not allow every step of the plan in the worst case, the steps of one way to the answer
come first, and every other step must fit beside the worst case of this way. If the limits allow no way, no
step is worth its cost, and the round ends.
"""

from podium.budget.ledger import Shortfall
from podium.errors import LimitExceeded
from podium.execution.answer_ways import AnswerWays
from podium.execution.dependencies import DependencyGraph
from podium.execution.run_context import RunContext
from podium.execution.step_amounts import is_metered
from podium.execution.step_state import StepState
from podium.types.outcome import Problem


class AnswerReserve:
    """Keeps amounts in the ledger of a run, for one round.

    Args:
        context: the context of the run.
        graph: the round's steps.
    """

    def __init__(self, context: RunContext, graph: DependencyGraph) -> None:
        self._context = context
        self._graph = graph
        self._ways = AnswerWays(context, graph)
        self._is_metered = is_metered(context)
        self._way: tuple[int, ...] = ()
        self._lacks: Shortfall | None = None
        self._has_all = True
        self._begun = False
        self.refusal: Problem | None = None
        """Why the limits allow no answer, so that no further step may start; `None` if they allow one, or if
        calls that are running may free enough. A run with an answer cache may get an answer without calls, so
        only the limit of steps counts."""

    def begin(self) -> None:
        """Keep amounts for the complete plan, whose paid results are known."""
        self._begun = self._graph.plan is not None and len(self._graph.plan.steps) > 1
        self._keep()

    def end(self) -> None:
        """Keep nothing more."""
        self._begun = False
        self._context.ledger.keep({})

    def update(self, ended: StepState) -> None:
        """Keep the amounts that the answer needs after a step has ended, or set `refusal`."""
        if not (self._has_all and ended.is_good) or self._is_scarce:
            self._keep()

    def admit(self, index: int) -> None:
        """Keep the amounts that the answer needs before a call of a step.

        Args:
            index: index of the step in its plan.

        Raises:
            LimitExceeded: the limits are needed for other steps, or allow no answer.
        """
        if self._begun and self._is_scarce:
            self._keep()
        if self.refusal is not None and self._lacks is not None:
            raise LimitExceeded(self._lacks.name, self.refusal.message)
        if not self._begun or self._has_all or (len(self._way) == 1 and index in self._way):
            return  # the ledger checks the call itself
        if self._lacks is None:
            if index not in self._way:
                self._admit_beside(index)
        elif self._context.cache is None:  # with a cache, the other steps may need no calls
            raise LimitExceeded(self._lacks.name, _too_little(self._lacks).message)

    def _admit_beside(self, index: int) -> None:
        """Raise `LimitExceeded` unless a step, and the steps that bring its output on, fit beside the way."""
        onward = self._ways.onward(index, self._way)
        amounts = self._ways.amounts(self._way, onward)
        kept = [(amount.worst, amount.worst) for amount in amounts]
        besides = self._ways.amounts(onward, self._way)
        starts = self._ways.starts((*self._way, *onward))
        lacks = self._context.ledger.shortfall([*kept, *besides], starts)
        if lacks is not None:
            needs = f"together with the steps that the answer needs, the step needs {lacks.needs}"
            raise LimitExceeded(lacks.name, f"{needs}, and {lacks.left}: raise Limits.{lacks.name} for more")

    @property
    def _is_scarce(self) -> bool:
        """Whether the steps of the plan could exceed a limit."""
        plan, left = self._graph.plan, self._context.ledger.left
        most = 0 if plan is None else len(plan.steps)
        few = left.calls is not None and left.calls < most * self._context.settings.retry.attempts
        return self._is_metered or few or (left.steps is not None and left.steps < most)

    def _keep(self) -> None:
        """Keep the worst case of every step if the limits allow it, else of the steps of the best way."""
        last, ledger, ways = self._graph.last, self._context.ledger, self._ways
        if not self._begun or last is None or last.outcome is not None:
            return
        self._way, self._lacks = ways.open, None
        worst = [amount.worst for amount in ways.amounts(self._way)]
        fits = ledger.shortfall([(each, each) for each in worst], ways.starts(self._way))
        self._has_all = fits is None
        if not self._has_all:
            best = ways.best()
            if best is None:  # the last step will be skipped, for another reason than limits
                ledger.keep({})
                self._way = ()
                return
            self._way, self._lacks = best
            if self._lacks is not None and self._is_final(self._lacks):
                self.refusal = _too_little(self._lacks)
                self.end()
                return
            worst = [amount.worst for amount in ways.amounts(self._way)]
        starts = [index for index in self._way if not self._graph[index].has_started]
        ledger.keep(dict(zip(self._way, worst, strict=True)), starts)

    def _is_final(self, lacks: Shortfall) -> bool:
        """Return whether the limits allow no answer, whatever the running calls spend."""
        if len(self._way) == 1 or (lacks.name != "steps" and self._context.cache is not None):
            return False  # the call of a single step is refused by the ledger itself
        return lacks.name in ("steps", "calls") or not self._context.ledger.is_calling


def _too_little(lacks: Shortfall) -> Problem:
    message = (
        f"the plan needs at least {lacks.needs} for an answer, and {lacks.left}, so no further step starts"
    )
    return Problem(LimitExceeded.code, f"{message}: raise Limits.{lacks.name} for more")
