"""How labels flow along access lists and through the turns of a conversation."""

import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from threading import Lock
from typing import Final, NamedTuple, Protocol

from podium.types.messages import Part
from podium.types.plan import Plan
from podium.types.result import LACK


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
    """Return the shortest path of steps from the source of a label to a step; empty if that is the query."""
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


_BLOCK: Final = 10
"""Characters of the pieces by which an answer is found inside a text."""
_LEAST: Final = 2 * _BLOCK
"""Characters of the shortest answer that is looked for inside texts; shorter ones occur by chance."""


def answer_key(asker: str, text: str, tool_calls: Sequence[Part] = ()) -> str:
    """Return the hash by which the labels of an answer are found; empty for an empty answer.

    Args:
        asker: whose conversation it is.
        text: the text; white space, and the sentence at the end of an incomplete answer, have no effect.
        tool_calls: the tool calls of an answer without text, of which the first counts.
    """
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
    """The labels of the latest answers, in memory. It is thread-safe.

    Args:
        most: maximum number of answers. The oldest is removed first.
        most_texts: maximum number of answers whose texts are kept.
        most_chars: maximum length of these texts together, in characters.
    """

    def __init__(self, most: int = 10_000, *, most_texts: int = 1000, most_chars: int = 4 * 2**20) -> None:
        self._most, self._most_texts, self._most_chars = most, most_texts, most_chars
        self._kept: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._texts: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """Asker and text of the latest answers."""
        self._chars = 0
        self._pieces: defaultdict[str, set[str]] = defaultdict(set)
        """The keys of the answers that have a piece in their middle."""
        self._lock = Lock()

    def keep(self, key: str, labels: frozenset[str], asker: str, text: str) -> None:
        """Add labels to an answer.

        Args:
            key: see `answer_key`.
            labels: the labels.
            asker: whose conversation it is.
            text: the text of the answer.
        """
        said = _said(text)
        with self._lock:
            self._kept[key] = self._kept.pop(key, labels) | labels
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
            if len(said) >= _LEAST and key not in self._texts:
                self._texts[key] = asker, said
                self._chars += len(said)
                for piece in _middle(said):
                    self._pieces[piece].add(key)
            while self._chars > self._most_chars or len(self._texts) > self._most_texts:
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
