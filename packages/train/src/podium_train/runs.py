"""The folder of a run: what it was started with, which changes it refuses, its models and its processes.

`training.json` of a run and of each of its models says what the training was started with.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from podium.errors import ConfigError
from podium_train.environments import Environment, Episode
from podium_train.recipe import Recipe, environment_of, fingerprint_of
from podium_train.run_files import last_checkpoint, step_of

RECORD: Final = "training.json"
"""The name of the file in the folder of a run, and in each checkpoint."""
_MOST_BYTES = 2**22
_SAMPLE = 64
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """The pools of the training."""

    sizes: tuple[int, ...]
    """Numbers of workers, drawn from a sample of episodes."""
    workers: tuple[str, ...]
    """The workers, in their order, if all pools were equal; else empty."""
    rates: bool
    """Whether the cards of workers that read prose had measured rates."""
    prices: bool
    """Whether these cards had prices."""
    brings: tuple[str, ...]
    """`Environment.brings`: workers at the end of each pool, which a conductor's section adds."""
    tools: tuple[str, ...]
    """The names of the other workers that read no prose and were in all pools."""
    shows_question: bool
    """Whether workers saw the question besides their subtask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """What a training was started with."""

    schema: int = 1
    """Version of the file."""
    part: Literal["sft", "grpo"]
    """The table of the recipe that was carried out."""
    recipe: Recipe
    """The recipe, with its defaults."""
    fingerprint: str | None
    """The fingerprint of the prompt; `None` for a prompt that cannot be served."""
    environment: str
    """Name of the environment."""
    data: str
    """Version of the environment: a fingerprint of its data."""
    pool: PoolFacts
    """The pools of the environment."""
    start: str
    """The model from which the training started: `base` of the recipe, or `sft/final` of the run."""
    weights: str | None
    """A digest of the weights of `start`; `None` if it is a name on the Hub."""
    examples: str | None
    """A digest of the examples of `[sft]`; `None` for GRPO."""


_TYPE = TypeAdapter(TrainingRecord)


def record_of(
    part: Literal["sft", "grpo"], recipe: Recipe, folder: Path, *, start: Path | None = None
) -> TrainingRecord:
    """Return the record of a training that starts now."""
    environment = environment_of(recipe.environment, folder)
    examples = None
    if part == "sft" and recipe.sft is not None:
        examples = _digest([folder / recipe.sft.examples])
    return TrainingRecord(
        part=part,
        recipe=recipe,
        fingerprint=None if recipe.prompt.form == "environment" else fingerprint_of(recipe.prompt),
        environment=environment.name,
        data=environment.version,
        pool=_pool(environment),
        start=recipe.model.base if start is None else "sft/final",
        weights=weights_of(start or folder / recipe.model.base),
        examples=examples,
    )


def weights_of(folder: Path) -> str | None:
    """Return a digest of the weights in a folder; `None` if there is no such folder."""
    if not folder.is_dir():
        return None
    return _digest(sorted(path for kind in _WEIGHTS for path in folder.glob(kind)))


def read_record(folder: Path) -> TrainingRecord | None:
    """Return the record in a folder; `None` if it has none."""
    path = folder / RECORD
    try:
        with path.open("rb") as file:
            return _TYPE.validate_json(file.read(_MOST_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        told = f"{path} is not valid: {where}: {first['msg']}"
        raise ConfigError(f"{told}; use the release of podium-train that wrote it") from error


def write_record(folder: Path, record: TrainingRecord) -> None:
    """Write the record of a folder, which is made if needed. After a crash it is whole or as before."""
    path = folder / RECORD
    try:
        folder.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_bytes(_TYPE.dump_json(record, indent=2) + b"\n")
        new.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _pool(environment: Environment) -> PoolFacts:
    episodes = environment.episodes("train", _SAMPLE, seed=0)
    pools = {episode.workers for episode in episodes}
    prose = [card for each in episodes for place, card in enumerate(each.cards) if place not in each.fills]
    return PoolFacts(
        sizes=tuple(sorted({len(pool) for pool in pools})),
        workers=pools.pop() if len(pools) == 1 else (),
        rates=any(card.measured for card in prose),
        prices=any(card.price is not None for card in prose),
        brings=environment.brings,
        tools=_tools(episodes, environment.brings),
        shows_question=episodes[0].shows_question,
    )


def _tools(episodes: Sequence[Episode], brings: Sequence[str]) -> tuple[str, ...]:
    """Return the names on the cards of the tools that each episode has, without those in `brings`."""
    names = [[episode.cards[place].name for place in episode.fills] for episode in episodes]
    return tuple(name for name in names[0] if name not in brings and all(name in others for others in names))


def _digest(paths: Iterable[Path]) -> str:
    """Return a digest of the contents of files."""
    found = sha256()
    try:
        for path in paths:
            with path.open("rb") as file:
                found.update(file_digest(file, "sha256").digest())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    return found.hexdigest()[:16]


def changes(
    then: Recipe, now: Recipe, keys: Sequence[str], *, free: frozenset[str] = frozenset()
) -> list[str]:
    """Return a line for each setting that differs."""
    found = _differences(then.model_dump(mode="json"), now.model_dump(mode="json"))
    return [
        f"{_named(path)}: {_value(before)}, now {_value(after)}"
        for path, before, after in found
        if any(f"{path}.".startswith(f"{key}.") for key in keys)
        and not any(f"{path}.".startswith(f"{key}.") for key in free)
    ]


def check_prompt(record: TrainingRecord, recipe: Recipe, model: object) -> None:
    """Check that a recipe has the prompt with which a model was trained."""
    _refuse(prompt_changes(record, recipe), model)


def check_recipe(record: TrainingRecord, recipe: Recipe, model: object) -> None:
    """Check that a recipe has the prompt, the data and the base with which a model was trained."""
    others = changes(record.recipe, recipe, ["environment", "model.base"])
    _refuse([*prompt_changes(record, recipe), *others], model)


def prompt_changes(record: TrainingRecord, recipe: Recipe) -> list[str]:
    """Return a line for each setting of the prompt that differs.

    If none differs, and the installed Podium writes another prompt for the same settings, the line says so.
    """
    found = changes(record.recipe, recipe, ["prompt"])
    if found or record.fingerprint is None:
        return found
    now = fingerprint_of(recipe.prompt)
    if now == record.fingerprint:
        return []
    return [f"the prompt that the installed Podium writes: {record.fingerprint}, now {now}"]


def listed(lines: Sequence[str]) -> str:
    """Return lines for an error, each indented."""
    return "".join(f"\n  {line}" for line in lines)


def _refuse(found: Sequence[str], model: object) -> None:
    if found:
        raise ConfigError(
            f"the model in {model} was trained with settings that differ from the recipe:{listed(found)}\n"
            f"Use the recipe of the training, whose settings are in {RECORD} in that folder"
        )


def _differences(then: object, now: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in {**then, **now}:
            yield from _differences(then.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif then != now:
        yield path, then, now


def _named(path: str) -> str:
    table, _, key = path.rpartition(".")
    return f"{key!r} in [{table}]" if table else f"[{key}]"


def _value(value: object) -> str:
    if value is None:
        return "not set"
    return "a table" if isinstance(value, dict) else json.dumps(value, ensure_ascii=False)


def mark_model(model: Path, run: Path) -> None:
    """Copy the record of a run into the folder of a model, and let the umask say who may read its files."""
    shutil.copyfile(run / RECORD, model / RECORD)
    share_files(model, like=RECORD)


def share_files(folder: Path, *, like: str) -> None:
    """Give the files in a folder the mode of one of them, because safetensors lets only their owner read."""
    for path in folder.iterdir():
        if path.is_file() and path.name != like:
            shutil.copymode(folder / like, path)


_TABLES = {
    "sft": ("environment", "model", "sft"),
    "grpo": ("environment", "model", "grpo", "recursion", "reward", "held_out"),
}
_FREE = frozenset(
    {
        *("environment.recording", "environment.config", "environment.questions"),  # digests
        *("environment.cassette", "sft.examples"),  # as above
        *("model.attention", "sft.micro_batch", "grpo.micro_batch", "grpo.vllm"),  # machine
        *("reward.limits",),
        *("sft.save_every", "grpo.save_every", "held_out.every"),
        *("sft.epochs", "grpo.steps"),  # may be raised
    }
)
"""Settings with which a run may continue although they differ."""
_MODELS = ("best", "final")


def begin(run: Path, record: TrainingRecord) -> list[str]:
    """Write the record of a run that starts, or check that a run continues with the settings of its start."""
    checkpoint = last_checkpoint(run)
    told: list[str] = []
    if checkpoint is not None or any((run / name).exists() for name in _MODELS):
        then = read_record(run)
        if then is None:
            raise ConfigError(
                f"{run} has models and no {RECORD}, so nobody can know how they were trained: name another "
                "'folder' in the recipe"
            )
        if found := _refused(then, record, step_of(checkpoint)):
            raise ConfigError(
                f"the run in {run} was started with other settings:{listed(found)}\n"
                "To continue it, restore these settings. To start a new run, name another 'folder' in the "
                "recipe"
            )
        told = _lengthened(then, record)
    write_record(run, record)
    return told


def begin_after_sft(run: Path, recipe: Recipe) -> None:
    """Check that GRPO continues a supervised training of the same base with the same prompt."""
    record = read_record(run / "sft" / "final")
    if record is None:
        raise ConfigError(f"{run / 'sft' / 'final'} has no {RECORD}: run podium-train sft again")
    if found := changes(record.recipe, recipe, ["model.base"]) + prompt_changes(record, recipe):
        raise ConfigError(
            f"the model in {run / 'sft' / 'final'} was trained with other settings:{listed(found)}\n"
            "To continue it, restore these settings. To start from another model, name another 'folder' in "
            "the recipe"
        )


def _refused(then: TrainingRecord, now: TrainingRecord, done: int) -> list[str]:
    """Return a line for each difference that would alter the run."""
    found = prompt_changes(then, now.recipe)
    found += changes(then.recipe, now.recipe, _TABLES[now.part], free=_FREE)
    if then.data != now.data and not changes(then.recipe, now.recipe, ["environment"], free=_FREE):
        found.append(f"the data of the environment {now.environment!r}: {then.data}, now {now.data}")
    if then.examples != now.examples:
        found.append(f"the examples of [sft]: {then.examples}, now {now.examples}")
    if (then.start, then.weights) != (now.start, now.weights):
        before, after = (f"{each.start} ({each.weights or 'on the Hub'})" for each in (then, now))
        found.append(f"the model from which it starts: {before}, now {after}")
    return found + _lowered(then, now, done)


def _lowered(then: TrainingRecord, now: TrainingRecord, done: int) -> list[str]:
    grpo, before, after = now.recipe.grpo, then.recipe.sft, now.recipe.sft
    if now.part == "grpo" and grpo is not None and grpo.steps < done:
        return [f"'steps' in [grpo] is {grpo.steps}, and the run has made {done}"]
    if now.part == "sft" and before is not None and after is not None and after.epochs < before.epochs:
        return [f"'epochs' in [sft]: {before.epochs:g}, now {after.epochs:g}; it may only be raised"]
    return []


def _lengthened(then: TrainingRecord, now: TrainingRecord) -> list[str]:
    """Return a sentence if the rest of the run has other learning rates, because its length has changed."""
    if now.part == "grpo" and now.recipe.grpo is not None and now.recipe.grpo.schedule == "constant":
        return []
    length = {"sft": "sft.epochs", "grpo": "grpo.steps"}[now.part]
    told = "The learning rate follows the new length from here"
    return [
        f"Changed since the last start: {each}. {told}."
        for each in changes(then.recipe, now.recipe, [length])
    ]


def processes_of_training() -> int:
    """Return the number of processes that `accelerate launch` or `torchrun` has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def passes_of(whole: int, micro_batch: int, *, what: str) -> int:
    """Return how many forward passes of `micro_batch` each process makes for an update."""
    at_once = micro_batch * processes_of_training()
    if whole % at_once:
        raise ConfigError(
            f"{what} is {whole}, which is not a multiple of micro_batch × processes, "
            f"{micro_batch} × {processes_of_training()}"
        )
    return whole // at_once
