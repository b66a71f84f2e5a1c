"""Computes how labels flow along access lists.

A worker's output has the worker's labels, the worker's name, and the labels of all data that the
worker saw. `podium.policy.rules` restricts which labels may reach which workers.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from podium.types.plan import Plan


class Party(Protocol):
    """A worker, planner or judge that sees data. `Card` implements it."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def labels(self) -> frozenset[str]:
        """The labels that rules refer to."""


class Flow(NamedTuple):
    """The labels of the data that a step sees, and of its output."""

    shown: frozenset[str]
    output: frozenset[str]


def after(party: Party, shown: frozenset[str]) -> frozenset[str]:
    """Return the labels of the output of `party` if it sees data with the labels `shown`."""
    return shown | party.labels | {party.name}


def labels_of(
    plan: Plan, cards: Sequence[Party], labels: frozenset[str], previous: frozenset[str] = frozenset()
) -> tuple[Flow, ...]:
    """Return the labels that flow through each step of a plan.

    Args:
        plan: the plan.
        cards: the cards of the pool's workers.
        labels: the labels of the data that every step sees: the labels of the query, and of all data that the
            planner has seen.
        previous: the labels of the previous round, for the steps that see it.
    """
    flows: list[Flow] = []
    for step in plan.steps:
        before = previous if step.previous else frozenset[str]()
        shown = labels.union(before, *(flows[seen].output for seen in step.access))
        flows.append(Flow(shown, after(cards[step.worker], shown)))
    return tuple(flows)


def route(plan: Plan, cards: Sequence[Party], label: str, step: int) -> tuple[int, ...]:
    """Return the shortest path of steps on which a label reaches a step.

    The path begins with the step from which the label comes, and ends with the step itself. The path is empty
    if the label comes from the query.
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
    """Return whether one of the words is the party's name or one of its labels."""
    return party.name in words or any(label in words for label in party.labels)
