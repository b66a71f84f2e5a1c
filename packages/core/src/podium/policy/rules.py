"""The parts of a policy: rules for data, and pins of kinds of steps to workers."""

from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass, field

from podium.errors import ConfigError
from podium.plan_text.stemming import words
from podium.policy.label_flow import Party, named
from podium.secrets.boundary import Boundary
from podium.types.names import check_name
from podium.types.plan import Step


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
