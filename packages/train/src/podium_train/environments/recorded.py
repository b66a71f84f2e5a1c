"""The environment of recorded answers.

Plans are carried out without waiting, with what a run of a conductor reaches. A run takes about a millisecond
for each step, because it can be cancelled, paid, recorded and resumed. A test compares both on random plans.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from itertools import cycle, islice
from random import Random

from podium.errors import ConfigError, PlanInvalid, WorkerError
from podium.prompts.output import BadOutput, constraint_of, output_in
from podium.prompts.prompt import step_input
from podium.types import Completion, Message, Plan
from podium.usage import Usage
from podium.workers import Caller, Card, Request, StepInput, VisibleStep, Worker
from podium_evals.errors import Unrecorded
from podium_evals.recorded import (
    NO_ANSWER,
    Question,
    RecordedWorker,
    Recordings,
    Vote,
    normalised,
    recorded_pool,
)
from podium_train.environments.environment import EarlierRound, Environment, Episode, PlanOutcome, Split
from podium_train.environments.episodes import CardWriter, Partition, RecordedSettings

VERSION = 1
"""Increased when the same plan may have another outcome on the same recording."""


@dataclass(frozen=True, slots=True)
class _StepEnd:
    """How a step ended."""

    text: str | None
    """The output; `None` if the step failed or was skipped."""
    usage: Usage = Usage()
    is_unrecorded: bool = False
    """Whether it failed because the worker was asked something that was not recorded."""

    @property
    def is_called(self) -> bool:
        """Whether the worker was called."""
        return self.text is not None or self.is_unrecorded


class RecordedAnswers(Environment):
    """Asks recorded questions; a plan's outcome is looked up.

    The pool of an episode has some recorded workers, then a vote. A plan is answered if each recorded worker
    sees one recorded question and nothing else, as in `podium_evals.recorded.RecordedWorker`. A run of a
    conductor has the same outcome. Of a worker's samples of a question, the episode draws the first one, and
    each step takes the next one.

    Questions with an answer that nobody graded, and questions that not all workers answered, are left out.

    Args:
        recordings: the recorded answers of all workers.
        settings: how episodes are drawn.
        name: the name of the environment.

    Raises:
        ConfigError: there are too few workers or questions, or nothing is recorded of a worker.
    """

    def __init__(
        self, recordings: Recordings, settings: RecordedSettings | None = None, *, name: str = "recorded"
    ) -> None:
        self.name = name
        self.settings = settings or RecordedSettings()
        """How episodes are drawn."""
        self.recordings = _whole(recordings, self.settings.workers)
        """The recorded answers, without questions that lack an answer or a grade."""
        self.partition = Partition(self.recordings, self.settings)
        """Which questions, kinds, workers and combinations belong to which split."""
        self.splits = self.partition.splits
        self._references = {_reference(question): question for question in self.recordings.questions}
        self._cards = {worker.worker: worker.card for worker in recorded_pool(self.recordings)}
        self.unpriced = tuple(name for name, card in self._cards.items() if card.price is None)
        self.version = _fingerprint(self.recordings, self.settings, self._cards)
        self._writer = CardWriter(self.recordings, self.partition.measuring, self._cards, self.settings)
        self._vote = Vote()
        self.brings = (self._vote.card.name,)
        self._scores: dict[str, dict[str, float]] = {}

    @property
    def training(self) -> Recordings:
        """The recorded answers of known workers to questions of `train`, on which baselines are fitted."""
        keys = {question.key for question in self.partition.questions["train"]}
        known = self.recordings.only(self.partition.known_workers)
        return known.where(lambda question: question.key in keys)

    def episodes(self, split: Split, count: int, *, seed: int) -> Sequence[Episode]:
        """Return episodes of a split. If a split has fewer questions, questions repeat with other pools.

        Raises:
            ConfigError: the environment has no such split, or `count` is negative.
        """
        if split not in self.splits:
            raise ConfigError(f"there is no split {split!r}: {self.name} has {', '.join(self.splits)}")
        if count < 0:
            raise ConfigError(f"count is {count!r}: it must be 0 or more")
        random = Random(f"{split}/{seed}")
        questions = list(self.partition.questions[split])
        random.shuffle(questions)
        drawn = islice(cycle(questions), count)
        return [self._episode(each, self.partition.pool(split, random), random) for each in drawn]

    async def carry_out(
        self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None
    ) -> PlanOutcome | None:
        """Look up the outcome of a plan; `None` if a worker is asked something that was not recorded.

        In the second round, a vote may count the answers of the first. A model that sees an answer of the
        first round was not recorded.
        """
        question = self.question_of(episode)
        if any(step.enough is not None for step in plan.calls):
            return None
        ends = await _run_steps(plan, (Message("user", question.text),), self.pool_of(episode), earlier)
        if any(end.is_unrecorded for end in ends.values()):
            return None
        score = self._score(question, ends[len(plan.calls) - 1].text or "")
        return None if score is None else self._outcome(episode, plan, ends, score)

    def question_of(self, episode: Episode) -> Question:
        """Return the question of an episode.

        Raises:
            ConfigError: the episode is of another environment.
        """
        question = self._references.get(episode.reference)
        if question is None:
            raise ConfigError(f"the episode {episode.key} is not of the environment {self.name!r}")
        return question

    def pool_of(self, episode: Episode) -> list[Worker]:
        """Return the recorded workers and the vote of an episode."""
        seed = int(episode.key[:8], 16)
        models = episode.workers[: self.models_of(episode)]
        found = [RecordedWorker(self.recordings, name, card=self._cards[name], seed=seed) for name in models]
        return [*found, self._vote]

    def models_of(self, episode: Episode) -> int:
        """Return the number of recorded workers of an episode; they come before the vote."""
        return len(episode.workers) - 1

    def _episode(self, question: Question, workers: Sequence[str], random: Random) -> Episode:
        vote = self._vote.card
        return Episode(
            question=question.text,
            cards=(*self._writer.write(workers, question, random), vote),
            workers=(*workers, vote.name),
            kind=question.kind,
            reference=_reference(question),
            fills=(len(workers),),
        )

    def _score(self, question: Question, answer: str) -> float | None:
        """Return what `Recordings.score` returns; all answers to a question are read once."""
        wanted = normalised(answer)
        if wanted in ("", NO_ANSWER):
            return 0.0
        if question.key not in self._scores:
            found = self._scores[question.key] = {}
            for worker in self.recordings.workers:
                for sample in self.recordings.samples(question, worker):
                    found.setdefault(normalised(sample.text), sample.score or 0.0)
        return self._scores[question.key].get(wanted)

    def _outcome(
        self, episode: Episode, plan: Plan, ends: Mapping[int, _StepEnd], score: float
    ) -> PlanOutcome:
        models = self.models_of(episode)
        called = [number for number in ends if ends[number].is_called and plan.calls[number].worker < models]
        asked = [(self._cards[episode.workers[plan.calls[at].worker]], ends[at].usage) for at in called]
        costs = [card.price.cost(usage) for card, usage in asked if card.price is not None]
        return PlanOutcome(
            score=score,
            cost=sum(costs) if len(costs) == len(asked) else None,
            calls=len(asked),
            tokens=sum(usage.total_tokens for _, usage in asked),
            outputs=tuple(ends[at].text if at in ends else None for at in range(len(plan.calls))),
        )


async def _run_steps(
    plan: Plan,
    query: Sequence[Message],
    pool: Sequence[Worker],
    earlier: EarlierRound | None = None,
) -> dict[int, _StepEnd]:
    """Return how the needed steps of a plan end; the output of the last step is the answer.

    A step with a missing input runs with a note about it, as by `on_failure="note"`. No call is retried.
    """
    ends: dict[int, _StepEnd] = {}
    before = () if earlier is None else earlier.visible()
    for number in sorted(plan.needed):
        step = plan.calls[number]
        good = [seen for seen in step.access if ends[seen].text is not None]
        previous = before if step.previous else ()
        if (step.access and not good and not previous) or any(
            ends[seen].text is None for seen in step.references
        ):
            ends[number] = _StepEnd(None)
            continue
        visible = previous + tuple(_shown(plan, seen, ends[seen]) for seen in step.access)
        worker = pool[step.worker]
        try:
            shown = step_input(worker, step, visible, query)
            caller = Caller(run_id="", round=1 if earlier is None else 2, step=number, attempt=1)
            completion = await _answer(worker, shown, caller)
            text = completion.text
            if step.returns is not None:
                text = output_in(text, step.returns, constraint_of(worker, step))
        except (BadOutput, PlanInvalid, WorkerError) as error:
            ends[number] = _StepEnd(None, is_unrecorded=isinstance(error, Unrecorded))
        else:
            ends[number] = _StepEnd(text, completion.usage)
    return ends


def _shown(plan: Plan, number: int, end: _StepEnd) -> VisibleStep:
    step = plan.calls[number]
    gap = "" if end.text is not None else "it failed"
    return VisibleStep(number, step.subtask, end.text or "", gap, label=step.label)


async def _answer(worker: Worker, shown: StepInput, caller: Caller) -> Completion:
    async with aclosing(worker.call(Request(messages=(), step_input=shown, caller=caller))) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completion):
                return piece
    raise AssertionError(f"{worker.card.name!r} ended without a completion")


def _reference(question: Question) -> str:
    """Return what an episode's key has of a question. In another form, episodes would draw other samples."""
    return json.dumps([[question.key, None, ""]])


def _whole(recordings: Recordings, workers: Sequence[str]) -> Recordings:
    """Return the questions that all of the workers answered, and whose answers all have a score."""
    if not recordings.workers:
        raise ConfigError("the recording is empty")
    recordings = recordings.only(workers or recordings.workers)
    ungraded = {
        each.question.key for each in recordings if any(sample.score is None for sample in each.samples)
    }
    found = recordings.where(lambda question: question.key not in ungraded)
    if not len(found):
        raise ConfigError("no question has graded answers of all workers")
    return found


def _fingerprint(recordings: Recordings, settings: RecordedSettings, cards: Mapping[str, Card]) -> str:
    digest = sha256(f"{VERSION}/{settings}".encode())
    digest.update(repr([(name, card.price) for name, card in cards.items()]).encode())
    for each in recordings:
        samples = [(sample.text, sample.score) for sample in each.samples]
        digest.update(
            repr((each.question.key, each.question.kind, each.worker, samples)).encode("utf-8", "replace")
        )
    return digest.hexdigest()[:16]
