"""The rules and pins of a policy, their breaches in a plan, and the repairs of a plan."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import NamedTuple

from podium.errors import ConfigError
from podium.plan_text.literals import words
from podium.policy.labels import Flow, Party, after, named, route
from podium.secrets import Boundary
from podium.types.names import check_name
from podium.types.plan import Plan, Step


def names(value: object, what: str) -> frozenset[str]:
    """Return names or labels, given as a collection or as one text, as a set.

    Raises:
        ConfigError: the value is not text or a collection of texts, or a text is not a name.
    """
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, Collection) or not all(isinstance(word, str) for word in found):
        raise ConfigError(f"{what} is {value!r:.80}: write names or labels of workers, as texts")
    return frozenset(check_name(word, f"an entry of {what}") for word in found)


def listed(found: Collection[str]) -> str:
    """Return names or labels as text."""
    return ", ".join(repr(word) for word in sorted(found))


@dataclass(frozen=True, slots=True)
class Rule:
    """Restricts which workers may see data with a label, and outputs that were written from such data.

    Raises:
        ConfigError: both `never` and `only` are set, or neither.
    """

    label: str
    """A label of the query, or the name or a label of a worker: the outputs of a worker have its name and its
    labels as labels.
    """
    _: KW_ONLY
    never: Collection[str] = ()
    """Names or labels of workers that must not see the data."""
    only: Collection[str] = ()
    """Names or labels of the only workers that may see the data."""

    def __post_init__(self) -> None:
        label: object = self.label
        if not isinstance(label, str):
            raise ConfigError(f"a rule's label is {label!r:.80}: write one label, as text")
        check_name(label, "a rule's label")
        object.__setattr__(self, "never", names(self.never, "Rule.never"))
        object.__setattr__(self, "only", names(self.only, "Rule.only"))
        if bool(self.never) == bool(self.only):
            raise ConfigError(f"the rule on {self.label!r} must have exactly one of never and only")

    def allows(self, party: Party, labels: Collection[str]) -> bool:
        """Return whether `party` may see data with these labels."""
        if self.label not in labels:
            return True
        return named(party, self.only) if self.only else not named(party, self.never)

    def __str__(self) -> str:
        """Return the rule as a sentence."""
        way = f"only reaches {listed(self.only)}" if self.only else f"never reaches {listed(self.never)}"
        return f"data with the label {self.label!r} {way}"


@dataclass(frozen=True, slots=True)
class Pin:
    """Gives certain steps to one worker, whichever worker the planner chose.

    Raises:
        ConfigError: `steps` has only stop words, like "the".
    """

    steps: str | Callable[[Step], bool]
    """Words that must all be in the subtask of a step, in any order and form; or a function that
    returns whether a step matches."""
    worker: str
    """The worker's name."""
    _stems: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        stems = frozenset(words(self.steps)) if isinstance(self.steps, str) else frozenset()
        if not stems and not callable(self.steps):
            raise ConfigError(
                f"the steps of a pin must be words of the subtasks it matches, not {self.steps!r:.80}"
            )
        object.__setattr__(self, "_stems", stems)

    def means(self, step: Step) -> bool:
        """Return whether the pin matches a step.

        Raises:
            ConfigError: the function raised.
        """
        if isinstance(self.steps, str):
            return self._stems.issubset(words(step.subtask))
        with Boundary(f"the pin of {self.worker!r}", ConfigError):
            return bool(self.steps(step))


class Breach(NamedTuple):
    """A breach of a policy by a plan."""

    step: int | None
    """Index of the step; `None` for a breach of the plan as a whole."""
    told: str
    """The error message."""


def broken_rules(
    plan: Plan, cards: Sequence[Party], flows: Sequence[Flow], rules: Collection[Rule]
) -> Iterator[Breach]:
    """Yield the steps whose worker would see data that a rule forbids, with the path of the data."""
    for index, step in enumerate(plan.steps):
        for rule in rules:
            if not rule.allows(cards[step.worker], flows[index].shown):
                yield Breach(index, f"{_way(plan, cards, rule.label, index)}: by the policy, {rule}")


def _way(plan: Plan, cards: Sequence[Party], label: str, index: int) -> str:
    """Return the path on which a label reaches a step, as text."""
    steps = route(plan, cards, label, index)
    names = [f"step {number} ({cards[plan.steps[number].worker].name}" for number in steps or (index,)]
    labels = ", ".join(sorted(cards[plan.steps[index].worker].labels)) or "no label"
    names[-1] += f": {labels}"
    if steps:
        names[0] += f": {label}"
    told = " → ".join(f"{name})" for name in names)
    if steps:
        return told
    sources = "the query, or data that its planner has seen"
    if any(step.previous for step in plan.steps[: index + 1]):
        sources = "the query, the previous round, or data that its planner has seen"
    return f"{sources} ({label}) → {told}"


def broken_pins(plan: Plan, cards: Sequence[Party], pins: Sequence[Pin]) -> Iterator[Breach]:
    """Yield the steps that are pinned to another worker."""
    for index, step in enumerate(plan.steps):
        pin = next((pin for pin in pins if pin.means(step)), None)
        if pin is not None and cards[step.worker].name != pin.worker:
            yield Breach(index, f"step {index}: the policy pins steps of this kind to {pin.worker}")


def lacking(plan: Plan, cards: Sequence[Party], required: Collection[str]) -> Iterator[Breach]:
    """Yield the required workers and labels without a step that the answer depends on."""
    needed = plan.needed
    workers = [cards[step.worker] for index, step in enumerate(plan.steps) if index in needed]
    for word in sorted(required):
        if not any(named(worker, (word,)) for worker in workers):
            able = listed([card.name for card in cards if named(card, (word,))])
            yield Breach(None, f"the policy requires {word!r}: give {able} a step that the answer depends on")


def together(plan: Plan, cards: Sequence[Party], apart: Sequence[tuple[str, str]]) -> Iterator[Breach]:
    """Yield the pairs that the policy keeps apart although both have a step in the plan."""
    for one, other in apart:
        ones = {step.worker for step in plan.steps if named(cards[step.worker], (one,))}
        others = {step.worker for step in plan.steps if named(cards[step.worker], (other,))}
        # One worker with both labels is not a pair.
        if any(first != second for first in ones for second in others):
            told = f"the policy keeps {one!r} and {other!r} apart: use only one of them in a plan"
            yield Breach(None, told)


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
