"""Writes the cards of an episode: prices, and rates that are measured on a few recorded answers."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from random import Random

from podium.workers import Card, Kind, MeasuredRate
from podium_evals.calibration import Tally, priors
from podium_evals.recorded import Question, Recordings
from podium_train.environments.recorded.settings import RecordedSettings
from podium_train.pools import disguised, measured_rates

_FIRST_DAY = date(2026, 1, 1)


class CardWriter:
    """Writes cards.

    Rates are measured for each episode on other drawn questions of the kind. So they are as noisy as the
    rates of `podium evals tune` with as many questions.

    Args:
        recordings: recorded answers.
        measuring: the questions that may be drawn.
        cards: the card of each worker, by its name.
        settings: what cards show.
    """

    def __init__(
        self,
        recordings: Recordings,
        measuring: Sequence[Question],
        cards: Mapping[str, Card],
        settings: RecordedSettings,
    ) -> None:
        self._recordings = recordings
        self._cards = cards
        self._settings = settings
        self._questions = defaultdict[str, list[Question]](list)
        for question in measuring:
            self._questions[question.kind].append(question)
        tallies = {
            kind: {name: self._tally(each, name) for name in recordings.workers}
            for kind, each in self._questions.items()
        }
        self._priors = {
            kind: dict(zip(recordings.workers, priors(recordings.workers, kind, tallies), strict=True))
            for kind in self._questions
        }

    def write(self, workers: Sequence[str], asked: Sequence[Question], random: Random) -> tuple[Card, ...]:
        """Return the cards of some workers for an episode.

        Args:
            workers: their names.
            asked: the questions of the episode, on which nothing is measured.
            random: draws the measured questions, the kinds and the disguise.
        """
        cards = tuple(self._cards[name] for name in workers)
        if self._settings.disguise:
            cards = disguised(cards, random)
        if not self._settings.probes:
            return cards
        day = _FIRST_DAY + timedelta(days=random.randrange(365))
        without = {question.key for question in asked}
        kinds = self._kinds(asked, without, random)
        columns = [self._measured(kind, workers, without, day, random) for kind in kinds]
        measured = zip(*columns, strict=True) if columns else [()] * len(cards)
        return tuple(
            replace(card, measured=tuple(rates)) for card, rates in zip(cards, measured, strict=True)
        )

    def _kinds(self, asked: Sequence[Question], without: Collection[str], random: Random) -> list[str]:
        """Return the kinds that are shown: those of the questions, and others, in random order.

        A kind is left out if there is no question on which it can be measured.
        """
        free = [
            kind
            for kind, questions in self._questions.items()
            if any(question.key not in without for question in questions)
        ]
        kinds = list(dict.fromkeys(question.kind for question in asked))[: self._settings.shown_kinds]
        others = [kind for kind in free if kind not in kinds]
        missing = min(self._settings.shown_kinds - len(kinds), len(others))
        found = [kind for kind in kinds if kind in free] + random.sample(others, missing)
        random.shuffle(found)
        return found

    def _measured(
        self, name: str, workers: Sequence[str], without: Collection[str], day: date, random: Random
    ) -> tuple[MeasuredRate, ...]:
        free = [question for question in self._questions[name] if question.key not in without]
        drawn = random.sample(free, min(self._settings.probes, len(free)))
        right = [0.0] * len(workers)
        for question in drawn:
            turn = random.randrange(60)
            for place, worker in enumerate(workers):
                samples = self._recordings.samples(question, worker)
                right[place] += samples[turn % len(samples)].score or 0.0
        prior = [self._priors[name][worker] for worker in workers]
        kind = Kind(name, tuple(question.text for question in drawn))
        return measured_rates(kind, prior=prior, right=right, answers=len(drawn), day=day)

    def _tally(self, questions: Iterable[Question], worker: str) -> Tally:
        scores = [
            sample.score or 0.0
            for question in questions
            for sample in self._recordings.samples(question, worker)[:1]
        ]
        return Tally(sum(scores), len(scores))
