"""Bundles: queries that consist of several recorded questions, so that plans of several steps are useful.

No worker was ever asked a whole bundle, but each part was asked and recorded. The recording therefore has the
answers to a plan in which each part is the subtask of a separate step.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass

from podium.types import Completion, Plan, Step
from podium.types.references import literal
from podium.workers import FREE, Card, Request, VisibleStep, Worker, step_input_of
from podium_evals.errors import Unrecorded
from podium_evals.recorded.question import Question
from podium_evals.recorded.recordings import NO_ANSWER


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

    @property
    def subtask(self) -> str:
        """Return the subtask of a step that asks this part. It may refer to the step of the needed part."""
        if self.needs is None:
            return literal(self.question.text)
        before, after = map(literal, self.around)
        return f"{before}{{{{{self.needs}}}}}{after}"


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

    def plan(self, workers: Sequence[int], join: int) -> Plan:
        """Return a plan with a step for each part, and a last step that joins the answers.

        Run the plan with `show_question=False`, because there are no recorded answers to the whole bundle.

        Args:
            workers: for each part, the number of its worker in the pool.
            join: the number of the worker `JoinParts` in the pool.
        """
        steps = [
            Step(worker, part.subtask, () if part.needs is None else (part.needs,))
            for worker, part in zip(workers, self.parts, strict=True)
        ]
        return Plan((*steps, Step(join, "Join the answers.", tuple(range(len(steps))))))

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
