"""Bundles: queries that consist of several recorded questions, so that plans of several steps are useful.

No worker was ever asked a whole bundle, but each part was asked and recorded. The recording therefore has the
answers to a plan in which each part is the subtask of a separate step.
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from podium.types import Completion
from podium.types.references import literal
from podium.workers import FREE, Card, Request, VisibleStep, Worker, step_input_of
from podium_evals.errors import RecordingInvalid, Unrecorded
from podium_evals.recorded.recordings import NO_ANSWER, Question, Recordings


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One question of a bundle."""

    question: Question
    needs: int | None = None
    """The number (from 0) of another part, whose answer is a number in this question; `None` for an
    independent part."""
    number: str = ""
    """The text of that number, which occurs once in the question. In the bundle, a reference to the other
    part replaces it."""

    @property
    def text(self) -> str:
        """The text of the question in the bundle."""
        if self.needs is None:
            return self.question.text
        before, after = self.around
        return f"{before}[the answer to part {self.needs + 1}]{after}"

    @property
    def around(self) -> tuple[str, str]:
        """The text before the number, and the text after it."""
        before, after = standing_alone(self.number).split(self.question.text, maxsplit=1)
        return before, after


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleScore:
    """The scores of an answer to a bundle."""

    parts: tuple[float | None, ...]
    """The score of each part, 0 to 1. A part without an answer scores 0. `None` if the answer cannot be
    graded."""

    @property
    def whole(self) -> float | None:
        """The mean score of the parts; `None` if a part cannot be graded."""
        graded = [score for score in self.parts if score is not None]
        return sum(graded) / len(graded) if len(graded) == len(self.parts) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A query that consists of two to five recorded questions of different kinds."""

    id: str
    """The name of the bundle, which contains the seed."""
    parts: tuple[Part, ...]
    """The parts. A part that needs another part is after it."""

    @property
    def text(self) -> str:
        """The text of the query."""
        told = "\n\n".join(f"Part {number}:\n{part.text}" for number, part in enumerate(self.parts, 1))
        return (
            f"Answer each of the {len(self.parts)} parts. Begin each answer with the number of its part, "
            f"as in `Part 1:`.\n\n{told}"
        )

    @property
    def texts(self) -> Mapping[str, str]:
        """The independent parts, as named texts of a run: `part_1`, `part_2` and so on."""
        alone = ((number, part) for number, part in enumerate(self.parts, 1) if part.needs is None)
        return {f"part_{number}": part.question.text for number, part in alone}

    def part_asked(self, subtask: str) -> Part | None:
        """Return the part that a subtask asks; `None` if the subtask is not a part."""
        for number, part in enumerate(self.parts, 1):
            if part.needs is None:
                if subtask in (literal(part.question.text), f"{{{{part_{number}}}}}"):
                    return part
            else:
                before, after = map(re.escape, map(literal, part.around))
                if re.fullmatch(rf"{before}\{{\{{\d+\}}\}}{after}", subtask):
                    return part
        return None

    def follows_an_error(self, scores: Sequence[float | None]) -> Part | None:
        """Return the part that depends on a number which a worker got wrong. Such a part scores 0."""
        for part in self.parts:
            if part.needs is not None and scores[part.needs] != 1:
                return part
        return None

    def answers(self, answer: str) -> tuple[str, ...]:
        """Return the answer to each part, from an answer to the bundle; empty for an unanswered part."""
        found, end = [], 0
        for number in range(1, len(self.parts) + 1):
            heading = re.compile(rf"^[ \t*_#>-]*Part {number}[\s*_]*:(?:\*\*|__)?\s*", re.MULTILINE).search(
                answer, end
            )
            found.append(heading)
            end = heading.end() if heading else end
        starts = [heading.start() for heading in found if heading] + [len(answer)]
        ends = iter(starts[1:])
        return tuple(answer[heading.end() : next(ends)].strip() if heading else "" for heading in found)

    def score(self, answer: str, grade: Callable[[str, str], float | None]) -> BundleScore:
        """Return the score of each part of an answer.

        Args:
            answer: the answer to the bundle.
            grade: returns the score of an answer to a question, as `Recordings.score` does.
        """
        pairs = zip(self.parts, self.answers(answer), strict=True)
        return BundleScore(
            parts=tuple(grade(part.question.text, text) if text else 0.0 for part, text in pairs)
        )


class JoinParts(Worker):
    """A worker that joins the outputs of visible steps, in the order of the plan, as an answer to a bundle.

    Args:
        name: the name of the worker.
    """

    uses_tokens = False
    reads_prose = False

    def __init__(self, name: str = "join-parts") -> None:
        self.card = Card(
            name=name, description="Joins the answers to the parts, in the order of the steps.", price=FREE
        )

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Join the outputs of the visible steps.

        Raises:
            Unrecorded: no earlier step is visible.
        """
        visible = sorted(step_input_of(request).visible, key=lambda step: step.step)
        if not visible:
            told = f"the step of worker {self.card.name!r} has an empty access list"
            raise Unrecorded(f"{told}: put the steps of the parts on its access list")
        text = "\n\n".join(f"Part {number}: {_told(step)}" for number, step in enumerate(visible, 1))
        if request.stream:
            yield text
        yield Completion(text)


def _told(step: VisibleStep) -> str:
    return step.output.strip() or NO_ANSWER


def standing_alone(number: str) -> re.Pattern[str]:
    """Return a pattern that finds a number in a text, but not inside a longer number or a word."""
    return re.compile(rf"(?<![\w.,-]){number}(?!\w|[.,]\d)")


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
