"""The file and lines of a config, for errors that name the line."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from podium.config.toml_lines import KeyPath
from podium.errors import ConfigError

_FIRST_WORD = re.compile(r"(?:[A-Z]\w*\.)?'?([a-z_]+)\b")
"""A key at the beginning of a message, alone or as that of a record: `Retry.fallbacks`."""


@dataclass(frozen=True, slots=True)
class Source:
    """The file of a config, and the line of each key."""

    path: Path
    lines: Mapping[KeyPath, int]

    def line(self, where: KeyPath) -> int:
        """Return the line of a key, from 1; a missing key has the line of its table."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where, 1)

    def told(self, where: KeyPath, what: str) -> str:
        """Put file and line before `what`."""
        return f"{self.path}:{self.line(where)}: {what}"

    def near(self, path: str) -> Path:
        """Return a path of the config, relative to its folder."""
        return self.path.parent / Path(path).expanduser()

    @contextmanager
    def at(self, *where: str) -> Iterator[None]:
        """Put file and line before the config errors of the block.

        An error that begins with a key of the table, as in "base_url is not a URL", has the line of the key.
        """
        try:
            yield
        except ConfigError as error:
            named = _FIRST_WORD.match(str(error))
            key = (*where, named[1]) if named else where
            raise ConfigError(self.told(key, str(error))) from error


class Findings:
    """Collects the config errors of several blocks, so that all of them are told at once."""

    def __init__(self) -> None:
        self._errors: list[ConfigError] = []

    def __bool__(self) -> bool:
        return bool(self._errors)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep a config error of the block."""
        try:
            yield
        except ConfigError as error:
            self._errors.append(error)

    def raise_found(self) -> None:
        """Raise what was collected, each text once.

        Raises:
            ConfigError: there is something; one line for each finding.
        """
        if self._errors:
            raise ConfigError("\n".join(dict.fromkeys(map(str, self._errors)))) from self._errors[0]
