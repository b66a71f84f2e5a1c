"""The file `training.json` of a run and of each of its models: what the training was started with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from podium.errors import ConfigError
from podium_train.environments import Environment, Episode
from podium_train.recipes import Recipe, environment_of, fingerprint_of

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
    cards: tuple[str, ...]
    """Descriptions on the cards of an example pool."""
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
    """Return the record of a training that starts now.

    Args:
        part: the table of the recipe.
        recipe: the settings.
        folder: the folder of the recipe.
        start: the folder with the model from which the training starts; `None` takes the base.

    Raises:
        ConfigError: the environment cannot be made, or a file cannot be read.
    """
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
    """Return the record in a folder; `None` if it has none.

    Raises:
        ConfigError: the file cannot be read, or is invalid.
    """
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
    """Write the record of a folder, which is made if needed. After a crash it is whole or as before.

    Raises:
        ConfigError: it cannot be written.
    """
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
        cards=tuple(card.description for card in episodes[0].cards),
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
