"""The labels of data, and the rules and pins of a policy with their breaches in a plan."""

import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Final, NamedTuple, Protocol

from podium.errors import ConfigError
from podium.plan_text.literals import words
from podium.secrets import Boundary
from podium.types.messages import Part
from podium.types.plan import Plan, check_name
from podium.types.result import LACK
from podium.types.steps import AnyStep, Step


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
    """Return the labels that flow through each step of a plan, in the order of its outline."""
    places = plan.outline
    flows = [Flow(labels, frozenset[str]())] * len(places)
    before: list[Flow] = []
    while before != flows:  # data flows back in loops, and out of blocks
        before = list(flows)
        for index, (_, step, sees, sees_round) in enumerate(places):
            shown = labels.union(previous if sees_round else (), *(flows[seen].output for seen in sees))
            output = after(cards[step.worker], shown) if isinstance(step, Step) else shown
            flows[index] = Flow(shown, output)
    return tuple(flows)


def route(plan: Plan, cards: Sequence[Party], label: str, step: int) -> tuple[int, ...]:
    """Return the shortest path of steps from the source of a label to a step; empty if that is the query."""
    ways: deque[tuple[int, ...]] = deque([(step,)])
    places, met = plan.outline, {step}
    while ways:
        way = ways.popleft()
        for seen in sorted(places[way[0]].sees):
            if seen in met:
                continue
            source = places[seen].step
            if isinstance(source, Step) and named(cards[source.worker], (label,)):
                return (seen, *way)
            met.add(seen)
            ways.append((seen, *way))
    return ()


def named(party: Party, words: Collection[str]) -> bool:
    """Return whether one of the words is the party's name or one of its labels."""
    return party.name in words or any(label in words for label in party.labels)


_BLOCK: Final = 10
"""Characters of the pieces by which an answer is found inside a text."""
_LEAST: Final = 2 * _BLOCK
"""Characters of the shortest answer that is looked for inside texts; shorter ones occur by chance."""
_MOST: Final = 10_000
"""Maximum number of answers in memory."""
_MOST_TEXTS: Final = 1000
"""Maximum number of answers whose texts are in memory."""
_MOST_CHARS: Final = 4 * 2**20
"""Maximum length of these texts together, in characters."""


def answer_key(asker: str, text: str, tool_calls: Sequence[Part] = ()) -> str:
    """Return the hash by which the labels of an answer are found; empty for an empty answer."""
    said = _said(text)
    if not said and tool_calls:
        said = json.dumps([tool_calls[0].get("id"), tool_calls[0].get("function", {}).get("name")])
    whole = f"{asker}\0{said}".encode("utf-8", "surrogatepass")
    return sha256(whole).hexdigest()[:32] if said else ""


def _said(text: str) -> str:
    packed = _packed(text)
    before = packed.rpartition(_packed(LACK))[0]
    return before if before and packed.endswith(")") else packed


def _packed(text: str) -> str:
    return "".join(text.split())


class AnswerLabels:
    """The labels of the latest answers, in memory. It is thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._texts: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """Asker and text of the latest answers."""
        self._chars = 0
        self._pieces: defaultdict[str, set[str]] = defaultdict(set)
        """The keys of the answers that have a piece in their middle."""
        self._lock = Lock()

    def keep(self, key: str, labels: frozenset[str], asker: str, text: str) -> None:
        """Add labels to the answer of an asker; `key` is its `answer_key`."""
        said = _said(text)
        with self._lock:
            self._kept[key] = self._kept.pop(key, labels) | labels
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
            if len(said) >= _LEAST and key not in self._texts:
                self._texts[key] = asker, said
                self._chars += len(said)
                for piece in _middle(said):
                    self._pieces[piece].add(key)
            while self._chars > _MOST_CHARS or len(self._texts) > _MOST_TEXTS:
                self._forget()

    def find(self, keys: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the labels of the answers that are known."""
        with self._lock:
            return {key: self._kept[key] for key in keys if key in self._kept}

    def inside(self, asker: str, text: str) -> frozenset[str]:
        """Return the labels of the latest answers to an asker that a text contains."""
        whole, labels = _packed(text), frozenset[str]()
        with self._lock:
            # Each row of 19 characters has a block that begins at a multiple of 10.
            blocks = {whole[at : at + _BLOCK] for at in range(0, len(whole), _BLOCK)}
            for key in {key for block in blocks for key in self._pieces.get(block, ())}:
                by, said = self._texts[key]
                if by == asker and said in whole:
                    labels |= self._kept.get(key, frozenset())
        return labels

    def _forget(self) -> None:
        key, (_, said) = self._texts.popitem(last=False)
        self._chars -= len(said)
        for piece in _middle(said):
            self._pieces[piece].discard(key)
            if not self._pieces[piece]:
                del self._pieces[piece]


def _middle(said: str) -> set[str]:
    first = (len(said) - _LEAST) // 2
    return {said[at : at + _BLOCK] for at in range(first, first + _BLOCK)}


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


def way_of(plan: Plan, cards: Sequence[Party], label: str, index: int) -> str:
    """Return the path on which a label reaches a step, as text."""
    steps, places = route(plan, cards, label, index), plan.outline
    chain = [places[number] for number in steps or (index,)]
    facts = [f"step {each.name} ({_who(each.step, cards)}" for each in chain]
    last = chain[-1].step
    own = cards[last.worker].labels if isinstance(last, Step) else ()
    facts[-1] += f": {', '.join(sorted(own)) or 'no label'}"
    if steps:
        facts[0] += f": {label}"
    told = " → ".join(f"{fact})" for fact in facts)
    if steps:
        return told
    sees_round = any(each.previous for each in (*places[:index], places[index]))
    round_before = "the previous round, " if sees_round else ""
    return f"the query, {round_before}or data that its planner has seen ({label}) → {told}"


def _who(step: AnyStep, cards: Sequence[Party]) -> str:
    return cards[step.worker].name if isinstance(step, Step) else "a block"


def first_pin(step: Step, pins: Sequence[Pin]) -> Pin | None:
    """Return the first pin that matches a step; `None` if none matches."""
    return next((pin for pin in pins if pin.means(step)), None)
