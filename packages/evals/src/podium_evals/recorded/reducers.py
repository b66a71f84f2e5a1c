"""Reducers: workers that choose one of the answers of earlier steps by a fixed rule, without a model.

Answers are compared by their text. Case, white space and punctuation around the text are ignored. A step
without an answer has no vote.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence

from podium.types import Completion
from podium.workers import FREE, Card, Request, Worker, step_input_of
from podium_evals.errors import Unrecorded
from podium_evals.recorded.recordings import NO_ANSWER, NO_TEXT


def same_answer(text: str) -> str:
    """Return the form of an answer that is compared: the same for `" Blue. "` and `"blue"`."""
    return " ".join(text.casefold().split()).strip("\"'`*$. ")


class Reducer(Worker):
    """The base class of workers that choose one of the outputs of the visible steps.

    Args:
        name: the name of the worker.
    """

    uses_tokens = False
    reads_prose = False
    description = ""
    """The description on the worker's card."""

    def __init__(self, name: str) -> None:
        self.card = Card(name=name, description=self.description, price=FREE)

    @abstractmethod
    def choose(self, question: str, answers: Sequence[str]) -> str:
        """Return one of the answers.

        Args:
            question: the run's question; the subtask if workers are not shown the question.
            answers: at least one, in the order of the plan.
        """

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Choose one of the answers of the visible steps.

        Raises:
            Unrecorded: no earlier step is visible.
        """
        shown = step_input_of(request)
        if not shown.visible:
            raise Unrecorded(f"{self.card.name!r} has no answers to choose from: give it an access list")
        question = shown.query[-1].text if shown.query else shown.subtask
        text = self.reduced(question, [step.output for step in shown.visible])
        if request.stream:
            yield text
        yield Completion(text, missing="no visible step has an answer" if text == NO_ANSWER else None)

    def reduced(self, question: str, outputs: Sequence[str]) -> str:
        """Return one of the outputs that are answers; `NO_ANSWER` if there are none.

        Raises:
            Unrecorded: the text of an answer was not recorded.
        """
        if any(output.startswith(NO_TEXT) for output in outputs):
            raise Unrecorded(
                f"{self.card.name!r} compares texts, but only the scores of answers were recorded"
            )
        answers = [output for output in outputs if output.strip() not in ("", NO_ANSWER)]
        return self.choose(question, answers) if answers else NO_ANSWER


class Vote(Reducer):
    """Returns the most frequent answer; of equally frequent answers, the first in the plan.

    Args:
        name: the name of the worker.
        read: returns the part of an answer to compare, such as the final answer in a longer text; `None`
            compares whole answers.
    """

    description = "Returns the answer that most of the earlier steps gave."

    def __init__(self, name: str = "vote", *, read: Callable[[str], str] | None = None) -> None:
        super().__init__(name)
        self._read = read

    def choose(self, question: str, answers: Sequence[str]) -> str:  # noqa: ARG002 - the question is not needed
        """Return the first answer of the largest group."""
        votes = [same_answer(answer if self._read is None else self._read(answer)) for answer in answers]
        return answers[max(range(len(votes)), key=lambda number: votes.count(votes[number]))]


class FirstAgreeing(Reducer):
    """Returns the first answer that another step repeats; the first answer of all if no two answers agree."""

    description = "Returns the first answer that two of the earlier steps agree on."

    def __init__(self, name: str = "first-agreeing") -> None:
        super().__init__(name)

    def choose(self, question: str, answers: Sequence[str]) -> str:  # noqa: ARG002 - the question is not needed
        """Return the answer that is the first to be repeated."""
        seen: dict[str, str] = {}
        for answer in answers:
            if (form := same_answer(answer)) in seen:
                return seen[form]
            seen[form] = answer
        return answers[0]


class Longest(Reducer):
    """Returns the longest answer; of equally long answers, the first in the plan."""

    description = "Returns the longest answer of the earlier steps."

    def __init__(self, name: str = "longest") -> None:
        super().__init__(name)

    def choose(self, question: str, answers: Sequence[str]) -> str:  # noqa: ARG002 - the question is not needed
        """Return the longest answer."""
        return max(answers, key=len)


class UpperBound(Reducer):
    """Returns the answer with the best score. This worker cheats: its grader knows the right answers.

    Use it to measure how good a pool could be with perfect choices. An arm with this worker is an upper
    bound, never a result.

    Args:
        score: returns the score of an answer to a question, 0 to 1; `None` if the answer cannot be graded.
        name: the name of the worker.
    """

    description = "An upper bound: returns the answer that the grader scores best."

    def __init__(self, score: Callable[[str, str], float | None], name: str = "upper-bound") -> None:
        super().__init__(name)
        self._score = score

    def choose(self, question: str, answers: Sequence[str]) -> str:
        """Return the best answer.

        Raises:
            Unrecorded: an answer cannot be graded.
        """
        scores = [self._score(question, answer) for answer in answers]
        graded = [score for score in scores if score is not None]
        if len(graded) < len(answers):
            raise Unrecorded(f"the answer {answers[scores.index(None)][:80]!r} has no score")
        return answers[graded.index(max(graded))]
