"""The environment of recorded answers: single questions, or bundles of several."""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import cycle, islice
from random import Random

from podium.errors import ConfigError, PlanInvalid
from podium.prompts.prompt import check_names
from podium.types import Message, Plan
from podium.workers import Card, Worker
from podium_evals.recorded import (
    Bundle,
    JoinParts,
    Part,
    Question,
    RecordedWorker,
    Recordings,
    Vote,
    make_bundles,
    recorded_pool,
)
from podium_train.environments.environment import EarlierRound, Environment, Episode, PlanOutcome, Split
from podium_train.environments.episodes import CardWriter, Partition, RecordedSettings
from podium_train.environments.outcomes import RecordedScores, StepEnd, asked_alone, plan_by_part, run_steps

VERSION = 1
"""Increased when the same plan may have another outcome on the same recording."""


class RecordedAnswers(Environment):
    """Asks recorded questions; a plan's outcome is looked up.

    The pool of an episode has some recorded workers, then a vote, and for bundles a worker that joins the
    parts. A plan is answered if each recorded worker sees one recorded question and nothing else, as in
    `podium_evals.recorded.RecordedWorker`. A run of a conductor has the same outcome. Of a worker's samples
    of a question, the episode draws the first one, and each step takes the next one.

    Questions with an answer that nobody graded, and questions that not all workers answered, are left out.

    Args:
        recordings: the recorded answers of all workers.
        settings: how episodes are drawn.
        name: the name of the environment.

    Raises:
        ConfigError: there are too few workers, questions or kinds, or nothing is recorded of a worker.
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
        self.splits = tuple(split for split in self.partition.splits if self._has_enough_kinds(split))
        if "train" not in self.splits:
            raise ConfigError("there are too few kinds for bundles: record more kinds, or change parts")
        self._questions = {question.key: question for question in self.recordings.questions}
        self._cards = {worker.worker: worker.card for worker in recorded_pool(self.recordings)}
        self.unpriced = tuple(name for name, card in self._cards.items() if card.price is None)
        self.version = _fingerprint(self.recordings, self.settings, self._cards)
        self._writer = CardWriter(self.recordings, self.partition.measuring, self._cards, self.settings)
        self._reducers: list[Worker] = [Vote(), *([JoinParts()] if self.settings.parts else [])]
        self.brings = tuple(worker.card.name for worker in self._reducers)
        self._scores = RecordedScores(self.recordings)

    @property
    def training(self) -> Recordings:
        """The recorded answers of known workers to questions of `train`, on which baselines are fitted."""
        keys = {question.key for question in self.partition.questions["train"]}
        known = self.recordings.only(self.partition.known_workers)
        return known.where(lambda question: question.key in keys)

    def episodes(self, split: Split, count: int, *, seed: int) -> Sequence[Episode]:
        """Return episodes of a split. If a split has fewer questions, questions repeat with other pools.

        Raises:
            ConfigError: the environment has no such split, or too few questions for bundles, or `count` is
                negative.
        """
        if split not in self.splits:
            raise ConfigError(f"there is no split {split!r}: {self.name} has {', '.join(self.splits)}")
        if count < 0:
            raise ConfigError(f"count is {count!r}: it must be 0 or more")
        random = Random(f"{split}/{seed}")
        queries = islice(self._queries(split, count, random), count)
        return [self._episode(query, self.partition.pool(split, random), random) for query in queries]

    async def carry_out(
        self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None
    ) -> PlanOutcome | None:
        """Look up the outcome of a plan; `None` if a worker is asked something that was not recorded.

        In the second round, a vote may count the answers of the first. A model that sees an answer of the
        first round was not recorded.
        """
        query = self.query_of(episode)
        if any(step.enough is not None for step in plan.calls):
            return None
        plan = self.as_recorded(episode, plan)
        texts = dict(episode.texts)
        try:
            check_names(plan.calls, texts)
        except PlanInvalid:
            return PlanOutcome(score=0.0)
        asked = () if isinstance(query, Bundle) else (Message("user", query.text),)
        ends = await run_steps(plan, asked, texts, self.pool_of(episode), earlier)
        score = self._scores.of_plan(query, plan, ends)
        return None if score is None else self._outcome(episode, plan, ends, score)

    def as_recorded(self, episode: Episode, plan: Plan) -> Plan:
        """Return the plan with the texts of parts in place of their names, if workers see the bundle."""
        query = self.query_of(episode)
        if isinstance(query, Bundle) and self.settings.asks == "shown":
            return asked_alone(plan, query, self.models_of(episode))
        return plan

    def query_of(self, episode: Episode) -> Question | Bundle:
        """Return the question or the bundle of an episode.

        Raises:
            ConfigError: the episode is of another environment.
        """
        try:
            rows = json.loads(episode.reference)
            parts = tuple(
                Part(question=self._questions[key], needs=needs, number=number) for key, needs, number in rows
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"the episode {episode.key} is not of the environment {self.name!r}") from error
        return parts[0].question if self.settings.parts is None else Bundle(id=episode.key, parts=parts)

    def pool_of(self, episode: Episode) -> list[Worker]:
        """Return the recorded workers and the reducers of an episode."""
        seed = int(episode.key[:8], 16)
        models = episode.workers[: self.models_of(episode)]
        found = [RecordedWorker(self.recordings, name, card=self._cards[name], seed=seed) for name in models]
        return [*found, *self._reducers]

    def models_of(self, episode: Episode) -> int:
        """Return the number of recorded workers of an episode; they come before the reducers."""
        return len(episode.workers) - len(self._reducers)

    def plan_by_part(self, episode: Episode, chosen: Sequence[Sequence[int]]) -> Plan:
        """Return the plan that asks each part of the query of some workers, see `subtasks.plan_by_part`.

        Args:
            episode: the episode. A single question has one part.
            chosen: the workers of each part, by their places in the pool.
        """
        query, models = self.query_of(episode), self.models_of(episode)
        bundle = query if isinstance(query, Bundle) else None
        return plan_by_part(bundle, chosen, vote=models, join=models + 1, asks=self.settings.asks)

    def _has_enough_kinds(self, split: Split) -> bool:
        kinds = {question.kind for question in self.partition.questions[split]}
        return self.settings.parts is None or len(kinds) >= self.settings.parts[0]

    def _queries(self, split: Split, count: int, random: Random) -> Iterator[Question | Bundle]:
        questions = list(self.partition.questions[split])
        if self.settings.parts is None:
            random.shuffle(questions)
            yield from cycle(questions)
            return
        fewest, most = self.settings.parts
        most = min(most, len({question.kind for question in questions}))
        keys = {question.key for question in questions}
        recordings = self.recordings.where(lambda question: question.key in keys)
        at_once = max(1, min(count, len(questions) // (4 * most)))
        while True:
            yield from make_bundles(
                recordings,
                at_once,
                seed=random.getrandbits(32),
                sizes=(fewest, most),
                linked=self.settings.linked,
            )

    def _episode(self, query: Question | Bundle, workers: Sequence[str], random: Random) -> Episode:
        parts = parts_of(query)
        cards = self._writer.write(workers, [part.question for part in parts], random)
        is_alone = isinstance(query, Bundle) and self.settings.asks == "alone"
        reducers = [worker.card for worker in self._reducers]
        return Episode(
            question=query.text,
            cards=(*cards, *reducers),
            workers=(*workers, *(card.name for card in reducers)),
            kind=_kind(query),
            reference=json.dumps([[part.question.key, part.needs, part.number] for part in parts]),
            texts=tuple(query.texts.items()) if isinstance(query, Bundle) and is_alone else (),
            shows_question=not is_alone,
            fills=tuple(range(len(workers), len(workers) + len(reducers))),
        )

    def _outcome(
        self, episode: Episode, plan: Plan, ends: Mapping[int, StepEnd], score: float
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


def parts_of(query: Question | Bundle) -> tuple[Part, ...]:
    """Return the parts of a query; a single question has one."""
    return query.parts if isinstance(query, Bundle) else (Part(question=query),)


def _kind(query: Question | Bundle) -> str:
    if isinstance(query, Question):
        return query.kind
    is_linked = any(part.needs is not None for part in query.parts)
    return f"{len(query.parts)} parts" + (", linked" if is_linked else "")


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
