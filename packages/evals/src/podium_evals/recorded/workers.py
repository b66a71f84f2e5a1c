"""Workers without a model: a recorded worker, and reducers, which choose one of the answers of earlier steps.

Questions are found by their content. If no answer was recorded, the call fails; nothing is guessed.
Reducers compare answers by their text, without case, white space and punctuation around it. A step without an
answer has no vote.
"""

import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import sha256

from podium.budget import Spend
from podium.types import Completion
from podium.usage import Usage, estimate_tokens
from podium.workers import FREE, Card, Request, StepInput, Worker, step_input_of
from podium_evals.errors import RecordingInvalid, Unrecorded
from podium_evals.recorded.recordings import (
    NO_ANSWER,
    NO_TEXT,
    PriceTable,
    Question,
    Recordings,
    Sample,
    normalised,
)

INSTRUCTIONS = ("Answer the question.", "Answer this question:")
"""Texts that a subtask may have before the question."""


class RecordedWorker(Worker):
    """Answers questions with the recorded samples of one worker.

    A call is answered if the worker is shown exactly one recorded question:

    - the subtask is the question, alone or after one of `INSTRUCTIONS`, and the run's question is either
      hidden (`show_question=False`) or the same;
    - or the subtask is only one of `INSTRUCTIONS`, and the run's question is recorded;
    - earlier steps and named texts are in the subtask by reference (`{{0}}`, `{{part_1}}`) or are not shown.

    Every other call fails with `Unrecorded`. The sampling settings of a call are ignored, because each sample
    was recorded with its own settings.

    The usage is the recorded usage. If it was not recorded, the tokens of the question and of the answer are
    estimated by `podium.usage.estimate_tokens`, and marked as estimated. Such an estimate leaves out system
    prompts and the reasoning before the answer, so it is too low.

    Args:
        recordings: the recorded answers.
        worker: the name of the worker in the recording.
        card: the card; `None` makes a card with the worker's name and price.
        seed: chooses the samples. The samples of a question are used in turn: each further step, attempt or
            round gets the next sample, and the first sample follows the last. A seed that is higher by one
            begins one sample later. Thus n seeds in a row use each of n samples once.
        empty_fails: whether an empty answer fails the call, as with a live model, so that `Retry.next_best`
            applies. Otherwise its text is `NO_ANSWER`.

    Raises:
        RecordingInvalid: the recording has no such worker.
    """

    reads_prose = False

    def __init__(
        self,
        recordings: Recordings,
        worker: str,
        *,
        card: Card | None = None,
        seed: int = 0,
        empty_fails: bool = False,
    ) -> None:
        if worker not in recordings.workers:
            known = ", ".join(recordings.workers)
            raise RecordingInvalid(f"the recording has no worker {worker!r}: its workers are {known}")
        self.recordings = recordings
        self.worker = worker
        self.card = card or _card(worker, recordings.prices)
        self._seed = seed
        self._empty_fails = empty_fails

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Return a recorded sample.

        Raises:
            Unrecorded: the worker is not shown exactly one recorded question.
        """
        question, samples = self._find(request)
        sample = self._at(question, samples, _turn(request))
        text = sample.text if sample.text.strip() or self._empty_fails else NO_ANSWER
        if request.stream:
            yield text
        missing = None if text is sample.text else "the recorded answer is empty"
        yield Completion(text, usage=_usage(question, sample), missing=missing)

    def worst_case(self, request: Request, answer_tokens: int) -> Spend:  # noqa: ARG002 - the interface has both parameters
        """Return the usage of the call's sample; zero if no sample is recorded.

        If the call is not known yet, return the highest usage of a sample of the question.
        """
        price = self.card.price
        try:
            question, samples = self._find(request)
        except Unrecorded:
            return Spend(1, cost=None if price is None else 0.0)
        if request.caller is not None:
            samples = (self._at(question, samples, _turn(request)),)
        usages = [_usage(question, sample) for sample in samples]
        read = max(usage.total_input_tokens for usage in usages)
        written = max(usage.total_output_tokens for usage in usages)
        return Spend(1, read, written, None if price is None else price.most(read, written))

    def usage_of(self, question: Question, sample: Sample) -> Usage:
        """Return the usage of a sample, estimated if it was not recorded."""
        return _usage(question, sample)

    def cost_of(self, question: Question) -> float | None:
        """Return the mean cost of the worker's answers to a question, in USD; `None` if it is not known."""
        price, samples = self.card.price, self.recordings.samples(question, self.worker)
        usages = [sample.usage for sample in samples if sample.usage and not sample.usage.estimated]
        if price is None or not samples or len(usages) < len(samples):
            return None
        return sum(map(price.cost, usages)) / len(usages)

    def _find(self, request: Request) -> tuple[Question, tuple[Sample, ...]]:
        text = _asked(request)
        question = self.recordings.find(text)
        if question is None:
            raise Unrecorded(f"no worker has a recorded answer to the question {text[:80]!r}")
        samples = self.recordings.samples(question, self.worker)
        if not samples:
            raise Unrecorded(f"{self.worker!r} has no recorded answer to {question.id!r}")
        return question, samples

    def sample_at(self, question: Question, turn: int) -> Sample | None:
        """Return the sample for a call; `None` if the worker has no recorded answer to the question.

        Args:
            question: the question.
            turn: the number of the step, plus the rounds and the attempts before the call.
        """
        samples = self.recordings.samples(question, self.worker)
        return self._at(question, samples, turn) if samples else None

    def _at(self, question: Question, samples: Sequence[Sample], turn: int) -> Sample:
        digest = sha256(f"{self.worker}/{question.key}".encode()).digest()
        return samples[(int.from_bytes(digest[:4], "big") + self._seed + turn) % len(samples)]


def recorded_pool(
    recordings: Recordings,
    workers: Iterable[str] | None = None,
    *,
    seed: int = 0,
    empty_fails: bool = False,
) -> list[RecordedWorker]:
    """Return a recorded worker for each name, with the prices of the recording.

    Args:
        recordings: the recorded answers.
        workers: the names; `None` means all workers of the recording.
        seed: chooses the samples.
        empty_fails: whether an empty answer fails the call.

    Raises:
        RecordingInvalid: the recording has no such worker.
    """
    names = recordings.workers if workers is None else tuple(workers)
    return [RecordedWorker(recordings, name, seed=seed, empty_fails=empty_fails) for name in names]


def _turn(request: Request) -> int:
    caller = request.caller
    return 0 if caller is None else caller.round - 1 + caller.step + caller.attempt - 1


def _card(worker: str, prices: PriceTable) -> Card:
    about, found = f"Recorded answers of {worker}.", prices.at(worker)
    if found is None:
        return Card(name=worker, description=about)
    return Card(name=worker, description=about, price=found.price, price_source=found.told)


def _usage(question: Question, sample: Sample) -> Usage:
    if sample.usage is not None:
        return sample.usage
    written = sample.text if sample.text.strip() else NO_ANSWER
    return Usage(_tokens(question.text), _tokens(written), estimated=True)


@lru_cache(maxsize=65_536)
def _tokens(text: str) -> int:
    return estimate_tokens(text)


def _asked(request: Request) -> str:
    """Return the one text that the worker is shown, without an instruction."""
    shown = request.step_input
    if shown is None:
        if len(request.messages) != 1:
            raise Unrecorded(
                "the conversation has several messages, but recordings have single questions only"
            )
        return request.messages[0].text
    _check_references(shown)
    if len(shown.query) > 1:
        raise Unrecorded("a conversation is before the question, but recordings have single questions only")
    subtask = without_instruction(shown.subtask)
    if not shown.query:
        return subtask
    query = shown.query[0].text
    if subtask and normalised(subtask) != normalised(query):
        raise Unrecorded(
            f"the worker is shown the subtask {subtask[:80]!r} and another question: "
            "hide the question (show_question=False)"
        )
    return query


def without_instruction(subtask: str) -> str:
    """Return a subtask without the instruction before it, normalised."""
    text = normalised(subtask)
    for instruction in INSTRUCTIONS:
        text = text.removeprefix(instruction)
    return text.lstrip()


def _check_references(shown: StepInput) -> None:
    for step in shown.visible:
        if step.gap or not re.search(rf"(?<!\\)\{{\{{\s*{step.step}\s*\}}\}}", shown.template):
            raise Unrecorded(
                f"the worker is shown step {step.step} besides its subtask, but recordings have single "
                f"questions only"
            )


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
