"""Keeps a part of a run's limits for the steps that the answer needs."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

from podium.budget.ledger import Shortfall
from podium.budget.limits import Spend
from podium.errors import LimitExceeded, PlanInvalid
from podium.execution.context import RunContext
from podium.execution.graph import DependencyGraph, StepState
from podium.prompts.subtask import REFUSED, shown_step, step_input
from podium.types.outcome import Problem
from podium.types.plan import Plan, Step
from podium.workers.pool import answer_bound, bounded
from podium.workers.worker import Request, VisibleStep

FIRST_GUESS = 1_000
"""Expected tokens of an answer of a worker without earlier answers; a token has four characters."""
_SHARE = 0.95
"""The expected length of a worker's next answer is this quantile of the lengths of its latest answers."""
_METERED = ("input_tokens", "output_tokens", "cost")


class Amount(NamedTuple):
    """The amounts of one call."""

    worst: Spend
    """The maximum that the call may spend; one call if its tokens are unknown."""
    expected: Spend


CALL = Amount(Spend(calls=1), Spend(calls=1))
"""The amount of a call if neither tokens nor cost are limited."""


def is_metered(context: RunContext) -> bool:
    """Return whether tokens or cost are limited."""
    return context.ledger.limits_any(*_METERED)


def amount_of(
    context: RunContext,
    step: Step,
    visible: tuple[VisibleStep, ...],
    *,
    worker: int | None = None,
    last: bool = False,
) -> Amount:
    """Return the amounts of a call.

    Args:
        context: the context of the run.
        step: the step of the call.
        visible: the steps that the worker sees, without those of the previous round.
        worker: number of the worker that is called; `None` means the worker of the step.
        last: whether it is the last step of its plan.
    """
    number = step.worker if worker is None else worker
    called, asked, limits = context.settings.pool.workers[number], context.request, context.settings.limits
    visible = context.previous.visible + visible if step.previous else visible
    query = asked.query if context.shows_question else ()
    try:
        shown = step_input(called, step, visible, query, most_chars=limits.output_chars, texts=asked.context)
    except PlanInvalid:  # if the real inputs are also too long, the step fails when it starts
        return CALL
    request = Request(messages=context.messages(step, shown, called.card), step_input=shown)
    if last and context.last_step_differs:
        messages = request.messages + asked.tool_messages
        tools = asked.tools if called.takes_tools else None
        request = replace(request, messages=messages, tools=tools, sampling=asked.sampling)
    request = bounded(called, request, context.ledger)
    worst = called.worst_case(request, limits.answer_tokens)
    if worst is None:
        return CALL
    worst = context.overlong.worst_case(called.card, worst)
    written = min(worst.output_tokens, expected_tokens(context, number))
    price, cost = called.card.price, worst.cost
    if cost is not None and price is not None:
        cost = min(cost, price.most(worst.input_tokens, written))
    return Amount(worst, replace(worst, output_tokens=written, cost=cost))


def expected_tokens(context: RunContext, worker: int) -> int:
    """Return the expected number of output tokens of a worker's next answer."""
    pool, called = context.settings.pool, context.settings.pool.workers[worker]
    written = pool.history(worker).output_tokens(_SHARE)
    tokens = FIRST_GUESS if written is None else written
    most = called.max_tokens
    if most is None and called.uses_tokens:
        most = answer_bound(called.card, context.ledger)
    return tokens if most is None else min(tokens, most)


def expected_step(context: RunContext, plan: Plan, index: int) -> VisibleStep:
    """Return a step as other steps see it, with an output of the expected length."""
    tokens = expected_tokens(context, plan.steps[index].worker)
    return shown_step(plan, index, "x" * min(4 * tokens, context.settings.limits.output_chars))


_Size = Callable[[int], float]
_Kind = Literal["known", "expected", "missing"]


class Way(NamedTuple):
    """A way to the answer."""

    steps: tuple[int, ...]
    """The steps that must still call a worker, as indices in the plan, in its order."""
    lacks: Shortfall | None
    """The limit that does not allow these steps, if each spends the expected amount; else `None`."""


class AnswerWays:
    """The ways to the answer of a complete plan.

    Args:
        context: the context of the run.
        graph: the steps of the plan.
    """

    def __init__(self, context: RunContext, graph: DependencyGraph) -> None:
        self._context = context
        self._graph = graph
        self._is_metered = is_metered(context)
        self._known: dict[object, Amount] = {}

    @property
    def _plan(self) -> Plan:
        assert self._graph.plan is not None
        return self._graph.plan

    @property
    def open(self) -> tuple[int, ...]:
        """The steps that have not ended and wait for a call."""
        return tuple(state.index for state in self._graph if state.needs_call)

    def best(self) -> Way | None:
        """Return the way with the fewest steps; if the limits do not allow it, another way that they allow.

        A way without steps whose latest call has failed is better. If the limits allow no way, the result
        `lacks` a limit. `None` means that there is no way, for another reason than limits.
        """
        ways = list(self._ways())
        return next((way for way in ways if way.lacks is None), ways[-1] if ways else None)

    def _ways(self) -> Iterator[Way]:
        failed = frozenset(state.index for state in self._graph if state.has_failed_call)
        sizes = self._sizes()
        for avoided in (failed, frozenset[int]()) if failed else (failed,):
            for size in sizes:
                if (steps := self._smallest(size, avoided)) is not None:
                    lacks = self._context.ledger.shortfall(self.amounts(steps), self.starts(steps))
                    yield Way(steps, lacks)

    def _sizes(self) -> list[_Size]:
        """Return what the best way has the least of: steps, or an amount that the run limits."""
        sizes: list[_Size] = [lambda _: 1]
        if self._is_metered:
            steps = self.open
            worst = [amount.worst for amount in self.amounts(steps)]
            for name in ("cost", "output_tokens", "input_tokens"):
                size = {index: getattr(spend, name) or 0 for index, spend in zip(steps, worst, strict=True)}
                sizes += [size.__getitem__] * self._context.ledger.limits_any(name)
        return sizes

    def _smallest(self, size: _Size, avoided: Collection[int]) -> tuple[int, ...] | None:
        """Return the smallest set of steps that must still call a worker so that the last step can be `ok`.

        It is the smallest one if the steps on it have no inputs in common. `None` if there is no such set.

        Args:
            size: the size of each step.
            avoided: steps that must not be in the set.
        """
        best: dict[int, frozenset[int] | None] = {}
        last = len(self._plan.steps) - 1
        for index in sorted(self._plan.reaching(last)):
            state = self._graph[index]
            if state.outcome is not None:
                best[index] = frozenset() if state.is_good else None
            elif not state.needs_call:
                best[index] = frozenset()
            else:
                best[index] = None if index in avoided else self._with_inputs(state, best, size)
        way = best[last]
        return None if way is None else tuple(sorted(way))

    def _with_inputs(
        self, state: StepState, best: dict[int, frozenset[int] | None], size: _Size
    ) -> frozenset[int] | None:
        """Return a step with the smallest sets of steps that give it enough inputs."""
        if state.visible is not None:
            return frozenset({state.index})
        inputs = [
            way
            for seen in state.step.access
            if (way := best[seen]) is not None
            and (self._graph[seen].outcome is None or state.takes(self._graph[seen]))
        ]
        must = [best[seen] for seen in state.step.references]
        count = self._graph.fewest_inputs(state)
        if len(inputs) < count or None in must:
            return None
        chosen = sorted(inputs, key=lambda way: sum(map(size, way)))[:count]
        return frozenset({state.index}).union(*chosen, *(way for way in must if way is not None))

    def onward(self, index: int, way: Collection[int]) -> tuple[int, ...]:
        """Return a step and the fewest steps that bring its output to a step of `way`."""
        paths: list[tuple[int, ...]] = [(index,)]
        met = {index}
        for path in paths:  # the loop appends to `paths`
            for state in self._graph[path[-1]].dependents:
                if state.index in way or not state.needs_call:
                    return path
                if state.index not in met:
                    met.add(state.index)
                    paths.append((*path, state.index))
        return (index,)

    def starts(self, steps: Iterable[int]) -> int:
        """Return how many of these steps have not started."""
        return sum(not self._graph[index].has_started for index in steps)

    def amounts(self, steps: Collection[int], running: Collection[int] = ()) -> list[Amount]:
        """Return the amount of each step, if these steps run and no other open step does.

        Args:
            steps: the steps.
            running: further steps that run.
        """
        if not self._is_metered:
            return [CALL] * len(steps)
        shown = {*steps, *running}
        return [self._amount(self._graph[index], shown) for index in steps]

    def _amount(self, state: StepState, running: Collection[int]) -> Amount:
        worker = state.next_worker
        inputs = tuple((index, self._kind(index, running)) for index in state.step.access)
        longest = self._context.overlong.longest(self._context.settings.pool.cards[worker])
        key = (state.index, worker, state.visible is None, inputs, longest)
        if key not in self._known:
            visible = state.visible
            if visible is None:
                visible = tuple(self._shown(index, kind) for index, kind in inputs)
            elif state.step.previous:  # `amount_of` adds the previous round
                visible = visible[len(self._context.previous.visible) :]
            last = state is self._graph.last
            self._known[key] = amount_of(self._context, state.step, visible, worker=worker, last=last)
        return self._known[key]

    def _kind(self, index: int, running: Collection[int]) -> _Kind:
        state = self._graph[index]
        if state.outcome is not None:
            return "known" if state.is_good else "missing"
        return "expected" if index in running or not state.needs_call else "missing"

    def _shown(self, index: int, kind: _Kind) -> VisibleStep:
        outcome = self._graph[index].outcome
        if kind == "expected":
            return expected_step(self._context, self._plan, index)
        if kind == "missing" or outcome is None:
            return shown_step(self._plan, index, "", REFUSED)
        return shown_step(self._plan, index, outcome.text)


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
