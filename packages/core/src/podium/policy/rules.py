"""The rules and pins of a policy, and their breaches in a plan."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from podium.errors import ConfigError
from podium.plan_text.literals import words
from podium.policy.labels import Flow, Party, named, route
from podium.secrets import Boundary
from podium.types.names import check_name
from podium.types.plan import Plan, Step


def names(value: object, what: str) -> frozenset[str]:
    """Return names or labels, given as a collection or as one text, as a set."""
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
    """A breach of a policy by a plan: the index of the step (`None`: the whole plan), and the message."""

    step: int | None
    told: str


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
    facts = [f"step {number} ({cards[plan.steps[number].worker].name}" for number in steps or (index,)]
    facts[-1] += f": {', '.join(sorted(cards[plan.steps[index].worker].labels)) or 'no label'}"
    if steps:
        facts[0] += f": {label}"
    told = " → ".join(f"{fact})" for fact in facts)
    if steps:
        return told
    round_before = "the previous round, " if any(step.previous for step in plan.steps[: index + 1]) else ""
    return f"the query, {round_before}or data that its planner has seen ({label}) → {told}"


def first_pin(step: Step, pins: Sequence[Pin]) -> Pin | None:
    """Return the first pin that matches a step; `None` if none matches."""
    return next((pin for pin in pins if pin.means(step)), None)


def broken_pins(plan: Plan, cards: Sequence[Party], pins: Sequence[Pin]) -> Iterator[Breach]:
    """Yield the steps that are pinned to another worker."""
    for index, step in enumerate(plan.steps):
        pin = first_pin(step, pins)
        if pin is not None and cards[step.worker].name != pin.worker:
            yield Breach(index, f"step {index}: the policy pins steps of this kind to {pin.worker}")


def lacking(plan: Plan, cards: Sequence[Party], required: Collection[str]) -> Iterator[Breach]:
    """Yield the required workers and labels without a step that the answer depends on."""
    workers = [cards[plan.steps[index].worker] for index in plan.needed]
    for word in sorted(required):
        if not any(named(worker, (word,)) for worker in workers):
            able = listed([card.name for card in cards if named(card, (word,))])
            yield Breach(None, f"the policy requires {word!r}: give {able} a step that the answer depends on")


def together(plan: Plan, cards: Sequence[Party], apart: Sequence[tuple[str, str]]) -> Iterator[Breach]:
    """Yield the pairs that the policy keeps apart although both have a step in the plan."""
    used = {step.worker for step in plan.steps}
    for pair in apart:
        ones, others = ({worker for worker in used if named(cards[worker], (word,))} for word in pair)
        # One worker with both labels is not a pair.
        if any(first != second for first in ones for second in others):
            told = f"the policy keeps {pair[0]!r} and {pair[1]!r} apart: use only one of them in a plan"
            yield Breach(None, told)
