"""Repairs plans that break a policy, if there is exactly one repair. `Plan.why` describes the repairs."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from podium.errors import ConfigError
from podium.policy.label_flow import Party, after
from podium.policy.rules import Pin
from podium.secrets.boundary import Boundary
from podium.types.plan import Plan, Step


def replaced(plan: Plan, cards: Sequence[Party], functions: Iterable[Callable[[Plan], Plan]]) -> Plan:
    """Return the plan after the policy's `replace` functions.

    Raises:
        ConfigError: a function raised, or returned an invalid plan.
    """
    for function in functions:
        with Boundary("the policy's replace", ConfigError):
            given: object = function(plan)
        if not isinstance(given, Plan) or not given.steps:
            raise ConfigError(
                f"the policy's replace returned {given!r:.80}: it must return a plan with steps"
            )
        highest = max(step.worker for step in given.steps)
        if highest >= len(cards):
            told = f"the policy's replace returned a plan with worker {highest}"
            raise ConfigError(f"{told}; the workers are 0 to {len(cards) - 1}")
        if given != plan:
            why = _joined(plan.why, given.why, "the policy replaced the plan")
            plan = replace(given, query=plan.query, why=why)
    return plan


def pinned(plan: Plan, cards: Sequence[Party], pins: Sequence[Pin]) -> Plan:
    """Return the plan with pinned steps given to the workers of their pins."""
    numbers = {card.name: number for number, card in enumerate(cards)}
    for index, step in enumerate(plan.steps):
        pin = next((pin for pin in pins if pin.means(step)), None)
        if pin is not None and pin.worker in numbers:
            plan = _given(
                plan, cards, index, numbers[pin.worker], "to which such steps are pinned, instead of {}"
            )
    return plan


def with_twins(
    plan: Plan,
    cards: Sequence[Party],
    labels: Callable[[Step], frozenset[str]],
    admits: Callable[[Party, frozenset[str]], bool],
    wanted: Collection[str],
    kept: Callable[[int], bool],
) -> Plan:
    """Return the plan with forbidden steps given to a similar worker, if exactly one is allowed.

    Args:
        plan: the plan.
        cards: the cards of the pool's workers.
        labels: returns the labels of the data that a step sees, without those of its access list.
        admits: returns whether a worker may see data with certain labels.
        wanted: labels that the policy asks for, which a similar worker may have in addition.
        kept: returns whether a step keeps its worker in any case.
    """
    outputs: list[frozenset[str]] = []
    for index, step in enumerate(plan.steps):
        shown = labels(step).union(*(outputs[seen] for seen in step.access))
        worker = step.worker
        if not admits(cards[worker], shown) and not kept(index):
            own = cards[worker].labels
            twins = [
                number
                for number, card in enumerate(cards)
                if own and own <= card.labels <= own.union(wanted) and admits(card, shown)
            ]
            if len(twins) == 1:
                plan = _given(plan, cards, index, twins[0], "instead of {}, which may not run it")
                worker = twins[0]
        outputs.append(after(cards[worker], shown))
    return plan


def _given(plan: Plan, cards: Sequence[Party], index: int, worker: int, why: str) -> Plan:
    step = plan.steps[index]
    if step.worker == worker:
        return plan
    steps = (*plan.steps[:index], replace(step, worker=worker), *plan.steps[index + 1 :])
    why = why.format(cards[step.worker].name)
    told = f"the policy gave step {index} to {cards[worker].name}, {why}"
    return replace(plan, steps=steps, why=_joined(plan.why, told))


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
