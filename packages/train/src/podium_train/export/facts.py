"""The file `podium_conductor.json`: how a conductor was trained, and how it must be asked."""

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from podium.errors import ConfigError
from podium_train.prompts import PromptStyle
from podium_train.runs import PoolFacts

FACTS_FILE = "podium_conductor.json"
_MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorFacts:
    """What is known of an exported conductor."""

    schema: int = 1
    """Version of the file."""
    fingerprint: str
    """`podium_train.fingerprint` of the prompt of the training."""
    style: PromptStyle
    """The prompt of the training."""
    base: str
    """The model from which the training started."""
    environment: str
    """Name of the environment."""
    data: str
    """Version of the environment: a fingerprint of its data."""
    pool: PoolFacts
    """The pools of the training."""
    step: int | None = None
    """The step of the exported checkpoint; `None` if unknown."""
    accuracy: float | None = None
    """Its sampled accuracy on the validation split; `None` if unknown."""
    last_measures: dict[str, object] = field(default_factory=dict)
    """The line of the log at this step."""


FACTS = TypeAdapter(ConductorFacts)


def read_facts(folder: Path) -> ConductorFacts:
    """Read the file of an exported folder.

    Raises:
        ConfigError: the folder has no such file, or it is invalid.
    """
    path = folder / FACTS_FILE
    try:
        with path.open("rb") as file:
            facts = FACTS.validate_json(file.read(_MOST_BYTES))
    except OSError as error:
        told = f"{folder} is not an exported conductor, because {FACTS_FILE} cannot be read"
        raise ConfigError(f"{told}: run `podium-train export`") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        told = f"{path} is not valid: {where}: {first['msg']}"
        raise ConfigError(f"{told}: export the conductor again, with `podium-train export`") from error
    if facts.schema != 1:
        raise ConfigError(
            f"{path} has the schema {facts.schema}: this version reads 1; install a newer podium-train"
        )
    return facts
