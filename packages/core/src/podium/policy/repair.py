"""Mends what of a plan can be mended in one way only; what was mended is said in `Plan.why`."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from podium.errors import ConfigError
from podium.policy.label_flow import Party, after
from podium.policy.rules import Pin
from podium.secrets.boundary import Boundary
from podium.types.plan import Plan, Step


def replaced(plan: Plan, cards: Sequence[Party], functions: Iterable[Callable[[Plan], Plan]]) -> Plan:
    """Return the plan that the policy's functions give in place of one.

    Raises:
        ConfigError: one raised, or gave something that cannot be carried out.
    """
    for function in functions:
        with Boundary("the policy's replace", ConfigError):
            given: object = function(plan)
        if not isinstance(given, Plan) or not given.steps:
            raise ConfigError(f"the policy's replace gave {given!r:.80}: give it a plan with steps")
        highest = max(step.worker for step in given.steps)
        if highest >= len(cards):
            raise ConfigError(f"the policy's replace gave worker {highest}; there are 0 to {len(cards) - 1}")
        if given != plan:
            why = _joined(plan.why, given.why, "the policy gave another plan in place of the one written")
            plan = replace(given, query=plan.query, why=why)
    return plan


def pinned(plan: Plan, cards: Sequence[Party], pins: Sequence[Pin]) -> Plan:
    """Give the steps that pins mean to their workers."""
    numbers = {card.name: number for number, card in enumerate(cards)}
    for index, step in enumerate(plan.steps):
        pin = next((pin for pin in pins if pin.means(step)), None)
        if pin is not None and pin.worker in numbers:
            plan = _given(
                plan, cards, index, numbers[pin.worker], "to whom such steps are pinned, in place of {}"
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
    """Give a step whose worker may not do it to the one other worker that may and is alike.

    Args:
        plan: its workers are numbers of `cards`.
        cards: the pool's.
        labels: those a step is shown besides the labels of the steps on its access list.
        admits: says whether a worker may be shown what carries certain labels.
        wanted: labels the policy asks for, which one that is alike may have besides.
        kept: says which steps keep their worker all the same.
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
                plan = _given(plan, cards, index, twins[0], "in place of {}, who may not do it")
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
