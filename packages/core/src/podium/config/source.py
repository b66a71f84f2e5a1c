"""The file and lines of a config, for errors that name the line."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from podium.config.toml_lines import KeyPath
from podium.errors import ConfigError


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
        """Put file and line before the config errors of the block."""
        try:
            yield
        except ConfigError as error:
            raise ConfigError(self.told(where, str(error))) from error
