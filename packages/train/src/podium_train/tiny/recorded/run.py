"""One run from nothing on recorded answers: warm start, GRPO with guards, and the comparison."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from podium_train.environments.environment import Split
from podium_train.evaluation import as_json, as_table, recorded_arms
from podium_train.guards import GuardSettings, HeldOut
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.grpo import Grpo, train
from podium_train.tiny.model import TinyConfig, TinyModel
from podium_train.tiny.recorded.comparing import Compared, compare_on
from podium_train.tiny.recorded.world import WARM_START, RecordedWorld
from podium_train.tiny.rollouts import roll_out
from podium_train.tiny.warm_up import WarmUp, warm_up
from podium_train.tiny.watch import Validation, Validations, Watch

HELD_OUT: tuple[Split, ...] = ("questions", "kinds", "workers", "mixes")
_TOLD_EVERY = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a run."""

    model: TinyConfig = field(default_factory=TinyConfig)
    """The size of the model; its vocabulary is set by the tokenizer."""
    warm_up: WarmUp = field(default_factory=lambda: WarmUp(steps=1200, texts=2, questions=0.0))
    """The warm start. After 600 steps the model takes the first worker of a row for 88 % of the parts of
    bundles, after 1,200 for nearly all."""
    grpo: Grpo = field(default_factory=lambda: Grpo(updates=200, lr=1e-4))
    """GRPO. Recorded outcomes are noisier than the synthetic world's: with its learning rate, plans of
    bundles get worse."""
    guards: GuardSettings = field(default_factory=GuardSettings)
    validate_every: int = 20
    """Number of updates between measurements on validation episodes."""
    validation: int = 400
    """Number of validation episodes."""
    episodes: int = 1000
    """Number of single questions of each split of the comparison."""
    bundles: int = 500
    """Number of bundles of each split of the comparison."""
    episodes_seed: int = 42
    """Seed of these episodes."""

    def fingerprint(self, world: RecordedWorld) -> str:
        """Return a hash of the settings, the recording and the warm start."""
        return hashlib.sha256(f"{world.environment.version} {WARM_START} {self!r}".encode()).hexdigest()[:12]


def run(
    world: RecordedWorld, settings: Settings, *, seed: int, folder: Path, told: Callable[[str], None]
) -> None:
    """Train a conductor from nothing and compare it.

    Args:
        world: the recorded answers.
        settings: the settings.
        seed: seed of the weights, the episodes and the texts.
        folder: gets `steps.jsonl` with one line for each update, `start`, `last` and `best` with the
            conductor, `result.json`, and `report.md` with the tables.
        told: gets a line of text when something was reached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in ("start", "last", "best"):  # from a run that was killed, perhaps with other settings
        shutil.rmtree(folder / left, ignore_errors=True)
    clock = time.process_time()
    conductor = _new(world, settings, seed)

    def log(facts: dict[str, float]) -> None:
        if (step := int(facts["step"]) + 1) % _TOLD_EVERY == 0:
            told(f"warm start, step {step}: loss {facts['loss']:.3f}")

    warm_up(conductor, settings.warm_up, seed=seed, world=world, log=log)
    conductor.save(folder / "start")
    warmed = time.process_time()
    start = _validate(world, settings, conductor)
    told(f"warm start: {start.accuracy.sampled:.3f} sampled, {warmed - clock:.0f} CPU seconds")
    watch = Watch(
        conductor,
        folder,
        validations=Validations(
            name="validation",
            every=settings.validate_every,
            measure=lambda: _validate(world, settings, conductor),
        ),
        updates=settings.grpo.updates,
        guards=settings.guards,
        told=told,
    )
    train(conductor, world.environment, settings.grpo, seed=seed, after=watch.after)
    trained = time.process_time()
    best = TinyConductor.load(watch.best.folder, world.message)
    compared = _compared(world, settings, best, told)
    kept = watch.best.best
    assert kept is not None
    facts = {
        "seed": seed,
        "fingerprint": settings.fingerprint(world),
        "stopped": watch.stop.told if watch.stop else "",
        "best": kept.step,
        "cpu_s": {
            "warm start": warmed - clock,
            "grpo": trained - warmed,
            "comparison": time.process_time() - trained,
        },
        "start": asdict(start.accuracy),
    }
    _write(folder / "report.md", _report(facts, compared))
    rows = [_as_json(each) for each in compared]
    _write(folder / "result.json", json.dumps({**facts, "compared": rows}))


def _new(world: RecordedWorld, settings: Settings, seed: int) -> TinyConductor:
    torch.manual_seed(seed)
    tokenizer = world.new_tokenizer()
    config = {**asdict(settings.model), "vocabulary": tokenizer.get_vocab_size()}
    return TinyConductor(TinyModel(TinyConfig(**config)), tokenizer, world.message)


def _validate(world: RecordedWorld, settings: Settings, conductor: TinyConductor) -> Validation:
    episodes = world.environment.episodes("validation", settings.validation, seed=11)
    generator = torch.Generator().manual_seed(0)
    sampled, greedy = (
        roll_out(conductor, world.environment, episodes, temperature=temperature, generator=generator)
        for temperature in (1.0, 0.0)
    )
    plans = [reward.plan for reward in greedy.rewards]
    steps = fmean(len(plan.calls) if plan else 0 for plan in plans)
    valid = fmean(plan is not None for plan in plans)
    return Validation(
        HeldOut(sampled=fmean(sampled.grades), greedy=fmean(greedy.grades)),
        f"{valid:.0%} valid, {steps:.1f} steps",
    )


def _compared(
    world: RecordedWorld, settings: Settings, conductor: TinyConductor, told: Callable[[str], None]
) -> list[Compared]:
    found = []
    for environment, count in (
        (world.environment.singles, settings.episodes),
        (world.environment.bundles, settings.bundles),
    ):
        others = recorded_arms(environment)
        for split in HELD_OUT:
            if split in world.environment.splits:
                told(f"comparison: {environment.name}, {split}")
                found.append(
                    compare_on(environment, conductor, others, split, count, seed=settings.episodes_seed)
                )
    return found


def _as_json(compared: Compared) -> dict[str, Any]:
    return {
        "over best single": as_json(compared.over_best_single),
        "over conductor": as_json(compared.over_conductor),
        "parts lost": compared.lost,
    }


def _report(facts: dict[str, Any], compared: list[Compared]) -> str:
    parts = ", ".join(f"{name} {seconds:.0f}" for name, seconds in facts["cpu_s"].items())
    head = f"Seed {facts['seed']}: CPU seconds {parts}; best update {facts['best']}. {facts['stopped']}"
    tables = [
        f"{as_table(each.over_best_single)}\n{as_table(each.over_conductor)}\nParts lost: {each.lost:.2%}\n"
        for each in compared
    ]
    return "\n\n".join((head, *tables))


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
