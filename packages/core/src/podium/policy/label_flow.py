"""How labels flow along access lists.

A worker's output carries the labels of its worker, that worker's name, and those of all
it was shown. Knows no rule: `rules` says which labels may reach whom.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from podium.types.plan import Plan


class Party(Protocol):
    """Whoever is shown data: a worker, a planner, a judge. A `Card` is one."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def labels(self) -> frozenset[str]:
        """What rules know it by."""


class Flow(NamedTuple):
    """The labels of what a step is shown and of what comes out of it."""

    shown: frozenset[str]
    output: frozenset[str]


def after(party: Party, shown: frozenset[str]) -> frozenset[str]:
    """Return the labels of what `party` writes when all it is shown carries `shown`."""
    return shown | party.labels | {party.name}


def labels_of(
    plan: Plan, cards: Sequence[Party], labels: frozenset[str], previous: frozenset[str] = frozenset()
) -> tuple[Flow, ...]:
    """Return the labels that flow through each step of a plan.

    Args:
        plan: its workers are numbers of `cards`.
        cards: the pool's.
        labels: what every step is shown: those of the query, and of all that whoever
            wrote the subtasks had seen.
        previous: those of the round before, for the steps that are shown it.
    """
    flows: list[Flow] = []
    for step in plan.steps:
        before = previous if step.previous else frozenset[str]()
        shown = labels.union(before, *(flows[seen].output for seen in step.access))
        flows.append(Flow(shown, after(cards[step.worker], shown)))
    return tuple(flows)


def route(plan: Plan, cards: Sequence[Party], label: str, step: int) -> tuple[int, ...]:
    """Return the shortest way on which a label reaches a step: its source first, the step last.

    Empty when no step before it is a source of the label, so that the query must be.
    """
    ways: deque[tuple[int, ...]] = deque([(step,)])
    met = {step}
    while ways:
        way = ways.popleft()
        for seen in plan.steps[way[0]].access:
            if seen in met:
                continue
            if named(cards[plan.steps[seen].worker], (label,)):
                return (seen, *way)
            met.add(seen)
            ways.append((seen, *way))
    return ()


def named(party: Party, words: Collection[str]) -> bool:
    """Say whether one of the words is the party's name or one of its labels."""
    return party.name in words or any(label in words for label in party.labels)
