"""Watches a training: logs each update, validates, keeps the best checkpoint, and asks the guards."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from podium_train.guards import (
    STEPS,
    BestCheckpoint,
    Guards,
    GuardSettings,
    HeldOut,
    Sample,
    StepLog,
    StepMeasures,
    Stop,
    held_out_told,
    measure as step_measures,
)
from podium_train.reward import Reward
from podium_train.rewards import Score
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.grpo import Update
from podium_train.tiny.sampler import MAX_TOKENS


@dataclass(frozen=True, slots=True)
class Validation:
    """A measurement on validation episodes."""

    accuracy: HeldOut
    told: str = ""
    """More about it, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validations:
    """When and how a conductor is validated."""

    name: str
    """The name of the episodes in the log."""
    every: int
    """Number of updates between validations; the last update has one too."""
    measure: Callable[[], Validation]


class Watch:
    """Logs each update, validates, keeps the best checkpoint, and asks the guards.

    Args:
        conductor: what is trained.
        folder: gets `steps.jsonl` with one line for each update, and `last` and `best` with the conductor.
        validations: when and how the conductor is measured.
        updates: number of updates of the training.
        guards: the rules that stop the training.
        told: gets a line of text after each validation.
    """

    def __init__(
        self,
        conductor: TinyConductor,
        folder: Path,
        *,
        validations: Validations,
        updates: int,
        guards: GuardSettings,
        told: Callable[[str], None],
    ) -> None:
        self.stop: Stop | None = None
        """Why the guards stopped the training."""
        self.best = BestCheckpoint(folder)
        """The best checkpoint."""
        self._conductor, self._folder, self._told = conductor, folder, told
        self._validations, self._updates = validations, updates
        self._log = StepLog(folder / STEPS)
        self._guards = Guards(guards)

    def after(self, update: Update) -> bool:
        """Return whether the training should stop."""
        number, rollouts = update.number + 1, update.rollouts
        texts = len(rollouts.rewards) // len(rollouts.episodes)
        samples = [
            Sample(
                episode=episode,
                score=score_of(reward),
                length=int(length),
                cut=bool(length >= MAX_TOKENS),
            )
            for episode, reward, length in zip(
                (episode for episode in rollouts.episodes for _ in range(texts)),
                rollouts.rewards,
                rollouts.lengths,
                strict=True,
            )
        ]
        measures = step_measures(number, samples, loss=update.loss)
        self.stop = self._guards.check(measures)
        if number % self._validations.every == 0 or self.stop is not None or number == self._updates:
            measures = self._validated(measures, update)
        self._log.write(measures)
        if self.stop:
            self._told(self.stop.told)
        return self.stop is not None

    def _validated(self, measures: StepMeasures, update: Update) -> StepMeasures:
        found = self._validations.measure()
        accuracy = found.accuracy
        self._conductor.save(self._folder / "last")
        assert accuracy.sampled is not None  # all outcomes of the tiny worlds are known
        self.best.offer(self._folder / "last", step=measures.step, accuracy=accuracy.sampled)
        self._told(
            f"update {measures.step}: validation {held_out_told(accuracy)}; {found.told}; "
            f"entropy {update.entropy:.3f}"
        )
        return replace(measures, held_out={self._validations.name: accuracy})


def score_of(reward: Reward) -> Score:
    """Return a reward with the facts that guards need."""
    steps = reward.plan.calls if reward.plan else ()
    outcome = reward.outcome
    return Score(
        value=reward.value,
        problem=reward.problem,
        workers=tuple(step.worker for step in steps),
        cost=outcome.cost if outcome else 0.0,
        calls=outcome.calls if outcome else 0,
    )
