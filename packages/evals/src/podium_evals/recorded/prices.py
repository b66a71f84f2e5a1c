"""Prices of models, with the date and the source of each price.

Prices change, so each price has a date. `prices.toml` has the prices of the workers in the public recordings.
Your own table has the same form.
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from podium.config.source import why_unreadable
from podium.errors import ConfigError
from podium.workers import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedPrice:
    """A price that a source listed on a date."""

    worker: str
    """The name of the worker in its recording."""
    as_of: date
    """A day on which the source listed the price."""
    price: Price
    source: str
    """The provider that listed the price, and the provider's name for the model."""

    @property
    def told(self) -> str:
        """The source and the date on one line."""
        return f"{self.source}, price of {self.as_of.isoformat()}"


class PriceTable:
    """Prices by worker and date.

    Args:
        prices: in any order.
    """

    def __init__(self, prices: Iterable[DatedPrice]) -> None:
        self._prices = tuple(sorted(prices, key=lambda each: each.as_of))

    @classmethod
    def shipped(cls) -> Self:
        """Return the known prices of the workers in the public recordings."""
        text = files("podium_evals.recorded").joinpath("prices.toml").read_text(encoding="utf-8")
        return cls.parse(text, "prices.toml")

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Read a TOML file.

        Raises:
            ConfigError: there is no such file, or the file is not a table of prices.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {why_unreadable(error)}") from error
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str) -> Self:
        """Read a table from TOML.

        Args:
            text: entries `[[price]]` with `worker`, `as_of` (a date), `input`, `output` (USD per million
                tokens), `source`, and `cached_input` where it differs from `input`.
            name: the name of the text for error messages.

        Raises:
            ConfigError: an entry lacks a field, or a field is of another type.
        """
        try:
            entries = tomllib.loads(text).get("price", [])
            return cls([_read(entry) for entry in entries])
        except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
            told = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{name} is not a table of prices: {told}") from error

    def __iter__(self) -> Iterator[DatedPrice]:
        return iter(self._prices)

    def at(self, worker: str, on: date | None = None) -> DatedPrice | None:
        """Return the latest price of a worker that was listed on a day or earlier.

        Args:
            worker: the name of the worker in the recording.
            on: the day; `None` returns the latest price of all.

        Returns:
            `None` if no price is known. This is different from a price of 0.
        """
        of_worker = [each for each in self._prices if each.worker == worker]
        known = [each for each in of_worker if on is None or each.as_of <= on]
        return known[-1] if known else None


def _read(entry: dict[str, Any]) -> DatedPrice:
    as_of = entry["as_of"]
    if type(as_of) is not date:
        raise TypeError(f"as_of is {as_of!r}: write a date, as in 2026-11-10")
    price = Price(input=entry["input"], output=entry["output"], cached_input=entry.get("cached_input"))
    return DatedPrice(worker=str(entry["worker"]), as_of=as_of, price=price, source=str(entry["source"]))
