"""Makes bundles of recorded questions. The same recording and seed give the same bundles on every machine."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from podium_evals.errors import RecordingInvalid
from podium_evals.recorded.bundles import Bundle, Part, standing_alone
from podium_evals.recorded.question import Question
from podium_evals.recorded.recordings import Recordings

LONGEST = 2000
"""Maximum number of characters of a question in a bundle."""
_NUMBER = re.compile(r"[1-9]\d{1,8}")
_NUMBERS = re.compile(r"(?<![\w.,-])[1-9]\d{1,8}(?!\w|[.,]\d)")


def make_bundles(
    recordings: Recordings,
    count: int,
    *,
    seed: int,
    sizes: tuple[int, int] = (2, 5),
    linked: float = 0.3,
) -> tuple[Bundle, ...]:
    """Return bundles of questions of different kinds; no question is in two bundles.

    In some bundles, a part contains a number that is the answer to an earlier part. Such a number has two
    digits or more, and all workers with the right answer wrote the number in the same way.

    Args:
        recordings: the questions that all workers of the pool were asked (see `Recordings.only`).
        count: the number of bundles.
        seed: another seed gives other bundles.
        sizes: minimum and maximum number of parts of a bundle.
        linked: the share of bundles in which a part needs another part; fewer if there are too few such
            pairs.

    Raises:
        RecordingInvalid: the sizes are wrong, or there are too few questions or kinds.
    """
    fewest, most = sizes
    if not 2 <= fewest <= most:
        raise RecordingInvalid(f"sizes is {sizes!r}: a bundle has at least two parts")
    maker = _Maker(recordings, seed)
    return tuple(maker.bundle(number, fewest, most, linked) for number in range(count))


@dataclass(slots=True)
class _Maker:
    """Makes bundles from the questions that are not yet in a bundle."""

    recordings: Recordings
    seed: int
    left: dict[str, list[Question]] = field(default_factory=dict)
    """The questions of each kind; the last one is used next."""
    pairs: "Iterator[tuple[Question, Question, str]]" = field(init=False)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        short = [question for question in self.recordings.questions if len(question.text) <= LONGEST]
        ordered = sorted(short, key=lambda question: self.drawn(question.key), reverse=True)
        for question in ordered:
            self.left.setdefault(question.kind, []).append(question)
        self.pairs = _pairs(self.recordings, ordered[::-1], self.used)

    def drawn(self, *about: object) -> float:
        """Return a pseudorandom number from 0 up to 1, which depends only on the seed and the arguments."""
        digest = sha256("/".join(map(str, (self.seed, *about))).encode()).digest()
        return int.from_bytes(digest[:7], "big") / 2**56

    def bundle(self, number: int, fewest: int, most: int, linked: float) -> Bundle:
        """Return the next bundle."""
        size = fewest + int(self.drawn("size", number) * (most - fewest + 1))
        pair = next(self.pairs, None) if self.drawn("linked", number) < linked else None
        parts: list[Part] = []
        if pair is not None:
            first, second, missing = pair
            parts = [Part(question=first), Part(question=second, needs=0, number=missing)]
            self.used |= {first.key, second.key}
        parts += [Part(question=question) for question in self._others(number, size, parts)]
        return Bundle(id=f"bundle/{self.seed}/{number}", parts=tuple(self._shuffled(number, parts)))

    def _shuffled(self, number: int, parts: Sequence[Part]) -> list[Part]:
        """Return the parts in another order; a part that needs another part stays after it."""
        order = sorted(parts, key=lambda part: self.drawn("order", number, part.question.key))
        linked = next((at for at, part in enumerate(order) if part.needs is not None), None)
        if linked is None:
            return order
        needed = order.index(parts[0])
        if needed > linked:
            order[needed], order[linked] = order[linked], order[needed]
            needed, linked = linked, needed
        order[linked] = replace(order[linked], needs=needed)
        return order

    def _others(self, number: int, size: int, parts: Sequence[Part]) -> Iterator[Question]:
        taken = {part.question.kind for part in parts}
        kinds = sorted(set(self.left) - taken, key=lambda kind: self.drawn("kind", number, kind))
        missing = size - len(parts)
        for kind in kinds:
            if not missing:
                return
            if question := self._next(kind):
                missing -= 1
                yield question
        if missing:
            raise RecordingInvalid(f"there are too few questions or kinds left for bundle {number}")

    def _next(self, kind: str) -> Question | None:
        while self.left[kind]:
            question = self.left[kind].pop()
            if question.key not in self.used:
                self.used.add(question.key)
                return question
        return None


def _pairs(
    recordings: Recordings, ordered: Sequence[Question], used: set[str]
) -> Iterator[tuple[Question, Question, str]]:
    """Yield a question, another question that contains the answer as a number, and that number."""
    having = dict[str, list[Question]]()
    for question in ordered:
        for number in set(_NUMBERS.findall(question.text)):
            if len(standing_alone(number).findall(question.text)) == 1:
                having.setdefault(number, []).append(question)
    for question in ordered:
        number = _right_number(recordings, question)
        if number is None or question.key in used:
            continue
        for other in having.get(number, ()):
            if other.kind != question.kind and other.key not in used:
                yield question, other, number
                break


def _right_number(recordings: Recordings, question: Question) -> str | None:
    """Return the right answer if it is a number that all right workers wrote in the same way."""
    right = {
        sample.text.strip()
        for worker in recordings.workers
        for sample in recordings.samples(question, worker)
        if sample.score == 1.0
    }
    return right.pop() if len(right) == 1 and _NUMBER.fullmatch(next(iter(right))) else None
