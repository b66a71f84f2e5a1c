"""The file of measured rates, which `podium calibrate` writes and `[pool] measured` names.

The file is JSON, so that people and programs can read the rates.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from podium.errors import ConfigError
from podium.workers.measured import Kind, MeasuredRate
from podium.workers.worker import Worker

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_MOST_BYTES = 16 * 2**20


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RateEntry(_Table):
    """The measured rate of one worker on one kind."""

    identity: str
    """The digest of the worker's identity; see `identity_of`."""
    answers: Annotated[int, Field(ge=1)]
    """The number of graded answers."""
    right: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """The sum of their scores."""
    prior: Share
    """The expected rate of the worker before its first answer."""
    rate: Share
    """The estimate, from `prior` and the answers."""
    low: Share
    """The lower end of the 95 % interval of `rate`."""
    high: Share
    """The upper end of the 95 % interval of `rate`."""
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    """The cost of the answers, in USD; `None` if unknown."""


class KindEntry(_Table):
    """The measured rates of all workers on one kind."""

    measured_on: date
    """The day of the latest answer."""
    fingerprint: str
    """A digest of the questions and their right answers."""
    questions: tuple[str, ...]
    """The questions that the workers were asked."""
    rates: dict[str, RateEntry]
    """The rates, by the name of the worker."""


class MeasuredFile(_Table):
    """The content of a file of measured rates."""

    version: Literal[1] = 1
    """The version of the file format."""
    kinds: dict[str, KindEntry] = Field(default_factory=dict)
    """The kinds, by name."""


def read_measured(path: Path | str) -> MeasuredFile:
    """Read a file of measured rates.

    Raises:
        ConfigError: the file cannot be read, or is not a file of measured rates.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist: `podium calibrate` writes it") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{path} cannot be read: it is longer than {_MOST_BYTES:,} bytes")
    try:
        return MeasuredFile.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        told = f"{where}: {first['msg']}" if where else first["msg"]
        raise ConfigError(
            f"{path} is not a file of measured rates: {told}: run `podium calibrate` again"
        ) from error


def write_measured(measured: MeasuredFile, path: Path | str) -> None:
    """Write a file of measured rates. An existing file is replaced when the new one is complete.

    Raises:
        ConfigError: the file cannot be written.
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(measured.model_dump_json(indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {error}") from error


def identity_of(worker: Worker) -> str:
    """Return a digest of a worker's model, server and sampling.

    The digest is empty if the worker has no identity, such as code without a version.
    """
    identity = worker.identity
    return "" if identity is None else sha256(identity.encode()).hexdigest()[:12]


def put_on_cards(measured: MeasuredFile, workers: Iterable[Worker]) -> None:
    """Put the measured rates on the cards of the workers with the same names.

    Raises:
        ConfigError: a worker with this name was measured, but with another model, server or sampling.
    """
    kinds = {name: Kind(name, entry.questions) for name, entry in measured.kinds.items()}
    for worker in workers:
        name, identity = worker.card.name, identity_of(worker)
        if stale := [kind for kind, entry in _of(measured, name) if entry.rates[name].identity != identity]:
            raise ConfigError(
                f"the worker {name!r} had another model, server or sampling when it was measured on "
                f"{', '.join(map(repr, stale))}: run `podium calibrate` again"
            )
        rates = tuple(_rate(kinds[kind], entry, name) for kind, entry in _of(measured, name))
        worker.card = replace(worker.card, measured=rates)


def _of(measured: MeasuredFile, worker: str) -> Iterator[tuple[str, KindEntry]]:
    """Yield the kinds on which a worker was measured."""
    kinds: Mapping[str, KindEntry] = measured.kinds
    return ((name, entry) for name, entry in kinds.items() if worker in entry.rates)


def _rate(kind: Kind, entry: KindEntry, worker: str) -> MeasuredRate:
    found = entry.rates[worker]
    return MeasuredRate(
        kind=kind,
        rate=found.rate,
        low=found.low,
        high=found.high,
        right=found.right,
        answers=found.answers,
        measured_on=entry.measured_on,
    )
