"""What a policy is made of: rules on data, and pins of workers to kinds of step."""

from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass, field

from podium.errors import ConfigError
from podium.plan_text.stemming import words
from podium.policy.label_flow import Party, named
from podium.secrets.boundary import Boundary
from podium.types.plan import Step


def names(value: object, what: str) -> frozenset[str]:
    """Return a set of names or labels, given as a collection or as one word.

    Raises:
        ConfigError: it is none.
    """
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, Collection) or not all(isinstance(word, str) and word for word in found):
        raise ConfigError(f"{what} is {value!r:.80}: give it names or labels of workers, as texts")
    return frozenset(found)


def listed(found: Collection[str]) -> str:
    """Say names or labels in a sentence."""
    return ", ".join(repr(word) for word in sorted(found))


@dataclass(frozen=True, slots=True)
class Rule:
    """Whom data that carries a label may reach; it holds for whatever is made of the data too.

    Raises:
        ConfigError: it names both `never` and `only`, or neither.
    """

    label: str
    """A label of the query or of a worker, whose output carries it; a worker's name does, too."""
    _: KW_ONLY
    never: Collection[str] = ()
    """Names or labels of those it never reaches."""
    only: Collection[str] = ()
    """Names or labels of those it may reach, and no others."""

    def __post_init__(self) -> None:
        label: object = self.label
        if not isinstance(label, str) or not label:
            raise ConfigError(f"a rule's label is {label!r:.80}: give it one label, as text")
        object.__setattr__(self, "never", names(self.never, "Rule.never"))
        object.__setattr__(self, "only", names(self.only, "Rule.only"))
        if bool(self.never) == bool(self.only):
            raise ConfigError(f"the rule on {self.label!r} needs one of never and only, and not both")

    def allows(self, party: Party, labels: Collection[str]) -> bool:
        """Say whether data with these labels may reach `party`."""
        if self.label not in labels:
            return True
        return named(party, self.only) if self.only else not named(party, self.never)

    def __str__(self) -> str:
        """Say the rule in a sentence."""
        way = f"only reaches {listed(self.only)}" if self.only else f"never reaches {listed(self.never)}"
        return f"what carries {self.label!r} {way}"


@dataclass(frozen=True, slots=True)
class Pin:
    """Gives a kind of step to one worker, whatever the planner wrote.

    Raises:
        ConfigError: `steps` are words that say nothing, like "the".
    """

    steps: str | Callable[[Step], bool]
    """Words that all stand in the subtasks it means, in any order and form; or a function that says so."""
    worker: str
    """The worker's name."""
    _stems: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        stems = frozenset(words(self.steps)) if isinstance(self.steps, str) else frozenset()
        if not stems and not callable(self.steps):
            raise ConfigError(f"a pin's steps are {self.steps!r:.80}: give it words of the subtasks it means")
        object.__setattr__(self, "_stems", stems)

    def means(self, step: Step) -> bool:
        """Say whether a step is of the kind.

        Raises:
            ConfigError: the function raised.
        """
        if isinstance(self.steps, str):
            return self._stems.issubset(words(step.subtask))
        with Boundary(f"the pin of {self.worker!r}", ConfigError):
            return bool(self.steps(step))
