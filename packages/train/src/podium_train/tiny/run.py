"""One run from nothing: warm start, GRPO with guards, and the measurement on held-out episodes."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean

from podium_train.environments import Episode
from podium_train.environments.specialists import BASELINES, Specialists
from podium_train.guards import GuardSettings, HeldOut, Sample, measure as step_measures
from podium_train.guards.rules import entropy_of
from podium_train.rewards import Score
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.evaluation import HELD_OUT, VALIDATION, Held, Measured, measure
from podium_train.tiny.grpo import Grpo, train
from podium_train.tiny.model import TinyConfig
from podium_train.tiny.variation import Variation
from podium_train.tiny.warm_up import WarmUp, warm_up
from podium_train.tiny.watch import Validation, Validations, Watch


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
        return hashlib.sha256(f"{Specialists().version} {self!r}".encode()).hexdigest()[:12]


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
    """After the warm start, on the validation episodes."""
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
    start = measure(conductor, settings.validation)
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
    train(conductor, Specialists(), settings.grpo, seed=seed, after=watch.after)
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
            score=Score(value=1.0, workers=tuple(step.worker for step in BASELINES["oracle"](episode).steps)),
            length=1,
        )
        for episode in episodes
    ]
    return entropy_of(step_measures(0, plans))
