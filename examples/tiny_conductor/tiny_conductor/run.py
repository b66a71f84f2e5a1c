"""One run from nothing: warm start, GRPO with guards, and the measurement on held-out episodes."""

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from math import log
from pathlib import Path
from statistics import fmean

import torch

from podium.types import Plan
from podium_train.environments import Episode, Split
from podium_train.guards import (
    Guards,
    GuardSettings,
    HeldOut,
    Sample,
    StepMeasures,
    Stop,
    entropy_of,
    held_out_told,
    measure as step_measures,
)
from podium_train.rewards import Reward, Score
from podium_train.run_files import STEPS, BestCheckpoint, StepLog
from tiny_conductor.model import TinyConductor, TinyConfig
from tiny_conductor.texts import Variation
from tiny_conductor.training import MAX_TOKENS, Grpo, Update, WarmUp, roll_out, train, warm_up
from tiny_conductor.world import BASELINES, Workshop, outcome_of


@dataclass(frozen=True, slots=True)
class Held:
    """A set of episodes on which conductors are measured."""

    name: str
    split: Split
    size: int = 5
    """Number of workers of each pool."""
    episodes: int = 1000
    seed: int = 41

    def draw(self) -> Sequence[Episode]:
        """Return the episodes."""
        world = Workshop(sizes=(self.size,))
        return world.episodes(self.split, self.episodes, seed=self.seed)


HELD_OUT = (
    Held("mixes", "mixes", episodes=2000),
    Held("three workers", "mixes", size=3),
    Held("six workers", "mixes", size=6),
    Held("unseen wordings", "questions"),
)
"""Measured once, after all settings were chosen."""
VALIDATION = Held("validation", "validation", episodes=400, seed=11)
"""For choosing settings and checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a conductor reached on a set of episodes. Grades are those of the episodes in their order."""

    sampled: list[float]
    """Grades at temperature 1."""
    greedy: list[float]
    valid: float
    """Share of sampled texts with a valid plan."""
    baselines: Mapping[str, list[float]]
    """Grades of the baselines."""
    kinds: list[str]
    """The kind of each episode."""
    entropy: float
    """Entropy of the workers of the sampled plans, in nats."""
    oracle_entropy: float
    """Entropy of the workers of the oracle's plans, in nats."""

    def by_kind(self, grades: Sequence[float]) -> dict[str, float]:
        """Return the mean grade of each kind."""
        kinds = dict.fromkeys(self.kinds)
        return {
            kind: fmean(grade for grade, of in zip(grades, self.kinds, strict=True) if of == kind)
            for kind in kinds
        }


def measure(conductor: TinyConductor, held: Held, *, seed: int = 0) -> Measured:
    """Measure a conductor on a set of episodes.

    Args:
        conductor: writes one text for each episode at temperature 1, and one at temperature 0.
        held: the episodes.
        seed: seed of the sampled texts.
    """
    episodes, references = _known(held)
    world = Workshop()
    generator = torch.Generator().manual_seed(seed)
    sampled = roll_out(conductor, world, episodes, generator=generator)
    greedy = roll_out(conductor, world, episodes, temperature=0, generator=generator)
    plans = [reward.plan for reward in sampled.rewards]
    return Measured(
        sampled=sampled.grades,
        greedy=greedy.grades,
        valid=fmean(plan is not None for plan in plans),
        baselines={
            name: [outcome_of(*pair).score for pair in zip(episodes, made, strict=True)]
            for name, made in references.items()
        },
        kinds=[episode.kind for episode in episodes],
        entropy=_entropy(episodes, plans),
        oracle_entropy=_entropy(episodes, references["oracle"]),
    )


@cache
def _known(held: Held) -> tuple[Sequence[Episode], Mapping[str, Sequence[Plan]]]:
    """Return the episodes, and the plans of the baselines for them."""
    episodes = held.draw()
    return episodes, {
        name: [plan_for(episode) for episode in episodes] for name, plan_for in BASELINES.items()
    }


def _entropy(episodes: Sequence[Episode], plans: Sequence[Plan | None]) -> float:
    """Return the entropy of how often workers are used, in nats."""
    counts = Counter(
        episode.workers[step.worker]
        for episode, plan in zip(episodes, plans, strict=True)
        for step in (plan.calls if plan else ())
    )
    total = counts.total()
    return -sum(count / total * log(count / total) for count in counts.values())


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a run."""

    model: TinyConfig = field(default_factory=TinyConfig)
    warm_up: WarmUp = field(default_factory=lambda: WarmUp(variation=Variation()))
    grpo: Grpo = field(default_factory=lambda: Grpo(variation=Variation()))
    guards: GuardSettings = field(default_factory=GuardSettings)
    """The guards. Without a `reference_entropy`, the oracle's is taken."""
    validate_every: int = 25
    """Number of updates between measurements on validation episodes."""
    validation: Held = VALIDATION
    """The validation episodes, which choose the checkpoint."""

    @property
    def fingerprint(self) -> str:
        """A hash of the settings and of the world: results with equal fingerprints can be compared."""
        return hashlib.sha256(f"{Workshop().version} {self!r}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run reached."""

    seed: int
    fingerprint: str
    """`Settings.fingerprint`."""
    stopped: str
    """Why the guards stopped the run; empty if it ended by itself."""
    best: int
    """Number of the update whose checkpoint is measured."""
    cpu_s: dict[str, float]
    """Seconds of CPU of the warm start, of GRPO with its validation, and of the last measurement."""
    start: Measured
    """After the warm start, on the first set of held-out episodes."""
    held_out: dict[str, Measured]


def run(
    settings: Settings,
    *,
    seed: int,
    folder: Path,
    told: Callable[[str], None],
    held_out: tuple[Held, ...] = HELD_OUT,
) -> Result:
    """Train a conductor from nothing and measure it.

    Args:
        settings: the settings.
        seed: seed of the weights, the episodes and the texts.
        folder: gets `steps.jsonl` with one line for each update, `last` and `best` with the conductor, and
            `result.json`.
        told: gets a line of text when something was reached.
        held_out: the sets of episodes of the last measurement.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in ("start", "last", "best"):  # from a run that was killed, perhaps with other settings
        shutil.rmtree(folder / left, ignore_errors=True)
    clock = time.process_time()
    conductor = TinyConductor.new(seed, settings.model)
    warm_up(conductor, settings.warm_up, seed=seed)
    conductor.save(folder / "start")
    warmed = time.process_time()
    start = measure(conductor, held_out[0])
    told(f"warm start: {fmean(start.sampled):.3f} sampled, {warmed - clock:.0f} CPU seconds")
    guards = settings.guards
    if guards.reference_entropy is None:
        guards = replace(guards, reference_entropy=oracle_entropy(settings.validation.draw()))
    watch = Watch(
        conductor,
        folder,
        validations=Validations(
            name=settings.validation.name,
            every=settings.validate_every,
            measure=lambda: _validation(measure(conductor, settings.validation)),
        ),
        updates=settings.grpo.updates,
        guards=guards,
        told=told,
    )
    train(conductor, Workshop(), settings.grpo, seed=seed, after=watch.after)
    trained = time.process_time()
    best = TinyConductor.load(watch.best.folder)
    kept = watch.best.best
    assert kept is not None
    found = {held.name: measure(best, held) for held in held_out}
    end = time.process_time()
    result = Result(
        seed=seed,
        fingerprint=settings.fingerprint,
        stopped=watch.stop.told if watch.stop else "",
        best=kept.step,
        cpu_s={"warm start": warmed - clock, "grpo": trained - warmed, "measurement": end - trained},
        start=start,
        held_out=found,
    )
    new = folder / "result.new"
    new.write_text(json.dumps(asdict(result)), encoding="utf-8")
    new.replace(folder / "result.json")
    return result


def _validation(held: Measured) -> Validation:
    kinds = " ".join(f"{kind} {grade:.2f}" for kind, grade in sorted(held.by_kind(held.sampled).items()))
    return Validation(HeldOut(sampled=fmean(held.sampled), greedy=fmean(held.greedy)), kinds)


def oracle_entropy(episodes: Sequence[Episode]) -> float:
    """Return the relative entropy of the workers of the oracle's plans, as guards measure it."""
    plans = [
        Sample(
            episode=episode,
            score=Score(value=1.0, workers=tuple(step.worker for step in BASELINES["oracle"](episode).calls)),
            length=1,
        )
        for episode in episodes
    ]
    return entropy_of(step_measures(0, plans))
