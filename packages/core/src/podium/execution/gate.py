"""The gate before items and turns start: their number, their price, and their approval."""

from collections.abc import Iterable, Sequence
from math import ceil
from statistics import median
from typing import NamedTuple

from podium.budget.limits import NOTHING, Spend
from podium.errors import LimitExceeded
from podium.execution.context import RunContext
from podium.execution.expansion import Items, Turns
from podium.execution.fit import Fit
from podium.execution.graph import DependencyGraph
from podium.execution.need import LEAST, need_of_step
from podium.execution.node import Batch, StepNode
from podium.execution.reuse import Approver
from podium.run_state.actions import hash_of
from podium.types.events import ApprovalGiven, FanOut
from podium.types.outcome import Action, Problem, total_cost
from podium.types.references import written
from podium.types.scope import source_of
from podium.types.steps import AnyStep, Block, Step, calls_in, count_of
from podium.usage import Usage

_FIRST = 3
"""The number of items that are told."""
_MOST_CHARS = 200
"""Maximum characters of an item that is told."""
_MEDIAN = 0.5


class Amount(NamedTuple):
    """What executions are expected to need, and what they need at most."""

    expected: Spend = NOTHING
    worst: Spend = NOTHING

    def times(self, number: int, most: int | None = None) -> "Amount":
        """Return the amount of several executions."""
        return Amount(self.expected.times(number), self.worst.times(number if most is None else most))


class Gate:
    """Checks that items or a turn fit what is left of the limits, and asks for approval above thresholds."""

    def __init__(
        self, context: RunContext, graph: DependencyGraph, fit: Fit, approve: Approver | None, number: int
    ) -> None:
        self._context = context
        self._graph = graph
        self._fit = fit
        self._approve = approve
        self._round = number
        self._approved = NOTHING
        """The highest total that was approved."""
        self._amounts: dict[tuple[int, bool], Amount] = {}

    async def passes(self, batch: Batch) -> Problem | None:
        """Return why the executions of a batch may not start; `None` if they may."""
        nodes = [each for each in batch.nodes if each.outcome is None and each.reason is None]
        if not nodes:
            return None
        fewest, all_turns = (
            self._total(batch, nodes, is_one_turn=True),
            self._total(batch, nodes, is_one_turn=False),
        )
        self._tell(batch, nodes, all_turns)
        try:
            self._check(batch, nodes, fewest.expected)
        except LimitExceeded as error:
            fitting = self._fitting(batch, nodes)
            if not fitting:
                return Problem.of(error)
            for each in nodes[fitting:]:
                each.unmet = "skipped", Problem(error.code, f"it does not fit the limits: {error}")
            nodes = nodes[:fitting]
            all_turns = self._total(batch, nodes, is_one_turn=False)
        return await self._asked(batch, nodes, all_turns)

    def expected(self, nodes: Iterable[StepNode]) -> Spend:
        """Return what steps that have not ended are expected to need, with one turn of each loop."""
        return _sum([self._left(each, is_one_turn=True) for each in nodes]).expected

    def _fitting(self, batch: Batch, nodes: Sequence[StepNode]) -> int:
        """Return how many of the first items fit the limits; 0 if not all of them may be left out."""
        if not self._context.policy.takes_what_fits or not isinstance(batch.node.expansion, Items):
            return 0
        low, high = 0, len(nodes) - 1
        while low < high:
            middle = ceil((low + high) / 2)
            try:
                self._check(
                    batch, nodes[:middle], self._total(batch, nodes[:middle], is_one_turn=True).expected
                )
                low = middle
            except LimitExceeded:
                high = middle - 1
        return low

    def _check(self, batch: Batch, nodes: Sequence[StepNode], expected: Spend) -> None:
        """Raise `LimitExceeded` if an amount, and what the other steps need, is more than is left."""
        besides = self._besides(batch)
        what = (
            f"{self._told(batch, nodes)}, and the steps that the answer needs besides, are expected to need"
        )
        self._context.ledger.spare(expected, *besides, what=what)

    def _besides(self, batch: Batch) -> list[Spend]:
        """Return the least that the other steps of the plan need."""
        return [
            self._fit.floor(each).times(sum(1 for _ in calls_in([each.step])))
            for each in self._graph.states
            if each.expansion is None and each.needs_call and each not in batch.node.followers
        ]

    async def _asked(self, batch: Batch, nodes: Sequence[StepNode], amount: Amount) -> Problem | None:
        """Ask for approval if the total of the run is above a threshold, and was not approved."""
        above, context = self._context.policy.thresholds, self._context
        total = _added([context.ledger.spent, amount.expected, *self._besides(batch)])
        over = [
            name
            for name, most in above.items()
            if (found := getattr(total, name)) is None
            or found > max(most, getattr(self._approved, name) or 0)
        ]
        told = self._told(batch, nodes)
        asked = f"{told}: {_words(amount.expected)} expected, {_words(amount.worst)} at most"
        key = hash_of([batch.node.name, [written(self._data(each)) for each in nodes]])
        action = Action(
            run_id=context.request.run_id,
            round=self._round,
            step=batch.node.index,
            path=batch.node.path,
            worker="",
            asked=asked,
            key=key,
        )
        decided = context.paid_results.approvals.get((self._round, batch.node.index, key))
        is_refused = isinstance(decided, ApprovalGiven) and not decided.approved
        if not over and not is_refused:
            return None
        plan = self._graph.plan
        assert plan is not None
        if self._approve is None:
            limits = " and ".join(f"{name} {above[name]:g}" for name in over)
            why = f"{asked}; the run would need {_words(total)}, and Policy.ask_above is {limits}"
            how = "resume the run with a higher threshold, or with an approver (Policy.approve)"
            return Problem(LimitExceeded.code, f"{why}: {how}")
        given = await self._approve(action, plan, batch.node.labels)
        if isinstance(given, Problem):
            return given
        self._approved = total
        return None

    def _tell(self, batch: Batch, nodes: Sequence[StepNode], amount: Amount) -> None:
        expansion = batch.node.expansion
        is_turn = isinstance(expansion, Turns)
        self._context.tell(
            FanOut,
            round=self._round,
            step=batch.node.index,
            path=batch.node.path,
            kind="turn" if is_turn else "items",
            count=1 if is_turn else len(nodes),
            known=len(expansion.children) if isinstance(expansion, Items) else 0,
            expected=amount.expected,
            worst=amount.worst,
            first=()
            if is_turn
            else tuple(written(self._data(each))[:_MOST_CHARS] for each in nodes[:_FIRST]),
        )

    def _told(self, batch: Batch, nodes: Sequence[StepNode]) -> str:
        expansion = batch.node.expansion
        if isinstance(expansion, Turns):
            return f"turn {expansion.turn} of step {batch.node.name}"
        return f"{len(nodes)} item{'' if len(nodes) == 1 else 's'} of step {batch.node.name}"

    def _data(self, node: StepNode) -> object:
        return node.names["item"].data if "item" in node.names else None

    def _total(self, batch: Batch, nodes: Sequence[StepNode], *, is_one_turn: bool) -> Amount:
        """Return what the executions of a batch, and of the maps over their outputs, need."""
        node, expansion = batch.node, batch.node.expansion
        own = _sum([self._left(each, is_one_turn=is_one_turn) for each in nodes])
        if isinstance(expansion, Items):
            return _sum([own, _sum(self._later(node, is_one_turn=is_one_turn)).times(len(nodes))])
        assert isinstance(node.step, Block)
        assert isinstance(expansion, Turns)
        more = 0 if is_one_turn else (node.step.most or 1) - expansion.turn
        turn = _sum([self._of(step, is_one_turn=is_one_turn) for step in node.step.steps])
        return _sum([own, turn.times(more)])

    def _left(self, node: StepNode, *, is_one_turn: bool) -> Amount:
        """Return what an item, or a step of a turn, still needs; what is recorded has ended."""
        if node.has_ended:
            return Amount()
        if node.expansion is None:
            return self._of(node.step, is_one_turn=is_one_turn)
        frame = node.expansion.frame if isinstance(node.expansion, Turns) else None
        children = node.expansion.children if frame is None else frame.nodes
        open_ = [each for each in children if each.outcome is None]
        later = self._later(node, is_one_turn=is_one_turn) if frame is None else []
        own = [self._left(each, is_one_turn=is_one_turn) for each in open_]
        return _sum([*own, _sum(later).times(len(open_))])

    def _later(self, node: StepNode, *, is_one_turn: bool) -> list[Amount]:
        """Return what an item needs in the maps over the outputs of a map."""
        found = []
        for follower in node.followers:
            if source_of(follower.frame.steps, follower.number) == node.number:
                found.append(self._of(follower.step, is_one_turn=is_one_turn, is_item=True))
                found += self._later(follower, is_one_turn=is_one_turn)
        return found

    def _of(self, step: AnyStep, *, is_one_turn: bool, is_item: bool = False) -> Amount:
        """Return what a step needs; a list that is not known yet counts with one item, and at most all."""
        key = id(step), is_one_turn
        if key not in self._amounts:
            self._amounts[key] = (
                self._priced(step) if isinstance(step, Step) else self._inside(step, is_one_turn=is_one_turn)
            )
        amount = self._amounts[key]
        if step.each is None or is_item:
            return amount
        known = None if isinstance(step.each, str) else count_of(step.each)
        most = self._graph.limits.items if known is None else known
        return amount.times(1 if known is None else known, most)

    def _inside(self, step: Block, *, is_one_turn: bool) -> Amount:
        turns, most = 1, step.most or 1
        amount = _sum([self._of(inner, is_one_turn=is_one_turn) for inner in step.steps])
        return amount.times(turns if is_one_turn else most, most)

    def _priced(self, step: Step) -> Amount:
        """Return what a call needs, by the latest answers of its worker; without them the least."""
        pool, limits = self._context.settings.pool, self._graph.limits
        if self._context.settings.asks(step.worker):
            return Amount()
        need, card = need_of_step(self._context, step), pool.cards[step.worker]
        worst = Spend(1, need.least.input_tokens, need.most)
        if not pool.workers[step.worker].uses_tokens:
            return Amount(Spend(1, cost=need.least.cost), Spend(1, cost=need.least.cost))
        usual = pool.states[step.worker].history.output_tokens(_MEDIAN)
        written_tokens = min(usual or LEAST, need.most or LEAST)
        expected = Spend(1, need.expected, written_tokens)
        if card.most_cost is not None:
            costs = [call.cost for call in pool.states[step.worker].history.calls if call.cost is not None]
            likely = median(costs) if costs else 0.0
            return Amount(_with_cost(expected, likely), _with_cost(worst, card.most_cost))
        if card.price is None:
            return Amount(_with_cost(expected, limits.unpriced), _with_cost(worst, limits.unpriced))
        likely = card.price.cost(Usage(need.expected, written_tokens))
        return Amount(
            _with_cost(expected, likely), _with_cost(worst, card.price.most(worst.input_tokens, need.most))
        )


def _with_cost(spend: Spend, cost: float | None) -> Spend:
    return Spend(spend.calls, spend.input_tokens, spend.output_tokens, cost)


def _sum(amounts: Sequence[Amount]) -> Amount:
    return Amount(_added([each.expected for each in amounts]), _added([each.worst for each in amounts]))


def _added(spends: Sequence[Spend]) -> Spend:
    return Spend(
        sum(each.calls for each in spends),
        sum(each.input_tokens for each in spends),
        sum(each.output_tokens for each in spends),
        total_cost(each.cost for each in spends),
    )


def _words(spend: Spend) -> str:
    cost = "cost unknown" if spend.cost is None else f"${spend.cost:.4f}"
    return f"{spend.calls} call{'' if spend.calls == 1 else 's'}, {cost}"
