"""Finds the steps that a plan still needs for an answer.

The answer is the output of the plan's last step. The last step needs at least one of its inputs (or all of
them, as `on_failure` says), and so on. Such a set of steps is a way to the answer.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Literal, NamedTuple

from podium.budget.ledger import Shortfall
from podium.execution.dependencies import DependencyGraph
from podium.execution.run_context import RunContext
from podium.execution.step_amounts import CALL, Amount, amount_of, expected_step, is_metered
from podium.execution.step_state import StepState
from podium.prompts.subtask import REFUSED, shown_step
from podium.types.plan import Plan
from podium.workers.worker import VisibleStep

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
