"""Single questions and bundles of one recording, as one environment."""

from collections.abc import Sequence
from dataclasses import replace

from podium.errors import ConfigError
from podium.types import Plan
from podium_evals.recorded import Recordings
from podium_train.environments import (
    EarlierRound,
    Environment,
    Episode,
    PlanOutcome,
    RecordedAnswers,
    RecordedSettings,
)
from podium_train.environments.environment import Split

PARTS = RecordedSettings(parts=(2, 3))


class QuestionsAndBundles(Environment):
    """Asks single questions and bundles in turn.

    Both have the same held-out questions, kinds, workers and combinations. Steps ask the parts of a bundle
    by their numbers, `Answer part 1.`, because the tiny model cannot repeat the text of a part.

    Args:
        recordings: the recorded answers of all workers.
        settings: how episodes are drawn; `parts` is for bundles, and `asks` is not read.
        name: the name of the environment.

    Raises:
        ConfigError: there are too few workers, questions or kinds, or `parts` exceeds the kinds on cards.
    """

    def __init__(self, recordings: Recordings, settings: RecordedSettings = PARTS, *, name: str) -> None:
        if not settings.probes:
            raise ConfigError("probes is 0: the tiny model reads measured rates and nothing else")
        if settings.parts is None or settings.parts[1] > settings.shown_kinds:
            raise ConfigError(f"parts is {settings.parts!r}: cards show {settings.shown_kinds} kinds")
        settings = replace(settings, asks="shown")
        self.name = name
        self.singles = RecordedAnswers(
            recordings, replace(settings, parts=None), name=f"{name}, single questions"
        )
        self.bundles = RecordedAnswers(recordings, settings, name=f"{name}, bundles")
        self.version = f"{self.singles.version} {self.bundles.version}"
        self.splits = tuple(split for split in self.singles.splits if split in self.bundles.splits)

    def episodes(self, split: Split, count: int, *, seed: int) -> Sequence[Episode]:
        """Return single questions and bundles in turn."""
        singles = iter(self.singles.episodes(split, count - count // 2, seed=seed))
        bundles = iter(self.bundles.episodes(split, count // 2, seed=seed))
        return [next(bundles if number % 2 else singles) for number in range(count)]

    async def carry_out(
        self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None
    ) -> PlanOutcome | None:
        """Look up the outcome of a plan."""
        return await self.of(episode).carry_out(episode, plan, earlier)

    def of(self, episode: Episode) -> RecordedAnswers:
        """Return the environment that drew an episode; only bundles have a worker that joins parts."""
        return self.bundles if len(episode.fills) > 1 else self.singles
