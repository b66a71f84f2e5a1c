"""Finds the config file, reads it, and reports its errors with their lines."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from podium.config.added import AddedPlanner, read_added_tables
from podium.config.config import Config
from podium.config.files import KeyPath, lines_of, read_text, why_unreadable
from podium.config.sections import Sections
from podium.config.source import Complaint, Source, complaints_of, dangling, wrong_journal
from podium.errors import ConfigError
from podium.journal import Journal, SqlCache, SqlJournal

_MOST_BYTES = 2**20
_Model = TypeVar("_Model", bound=BaseModel)
_SYNTAX_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)


def find_config(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the config.

    The path is the first of: `path`, the value of `PODIUM_CONFIG`, `podium.toml` in the current folder,
    `podium/podium.toml` in the user's config folder.

    Raises:
        ConfigError: no config was found.
    """
    choices = _choices(path, environ)
    found = _first(choices)
    if found is None:
        told = " nor ".join(str(choice) for choice in choices)
        raise ConfigError(f"no config at {told}: write one with `podium init`, or name one with --config")
    return found


def find_journal(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Journal:
    """Return the journal of the config; without a config, the journal in the user's state folder.

    Invalid workers and missing keys of the config raise no error here.

    Raises:
        ConfigError: the config is invalid, or turns the journal off.
    """
    found = _with_journal(path, environ)
    if found is None:
        return SqlJournal()
    journal = found.config().journal()
    if journal is None:
        told = "runs are not recorded: remove `off` in [journal]"
        raise ConfigError(found.source.told(("journal", "off"), told))
    return journal


def find_shared_cache(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> SqlCache:
    """Return the cache in the database of `find_journal`, even if the journal is off.

    Raises:
        ConfigError: the config is invalid.
    """
    found = _with_journal(path, environ)
    if found is None:
        return SqlCache()
    return found.config().shared_cache()


def load_config(path: str | Path) -> Config:
    """Read and check a `podium.toml`.

    `Config.conductor` reads the keys from the environment and opens files; this function does not.

    Raises:
        ConfigError: the file cannot be read or is invalid; one line for each error, with file and line.
    """
    read = _checked(Path(path))
    if wrong := list(dangling(read.sections, has_planner=read.planner is not None)):
        raise ConfigError(_told(read.source, wrong))
    return read.config()


@dataclass(frozen=True, slots=True)
class _Read:
    """A file whose tables are valid."""

    source: Source
    sections: Sections
    added: Mapping[str, BaseModel]
    planner: AddedPlanner | None

    def config(self) -> Config:
        return Config(self.sections, self.source, self.added, self.planner)


def _with_journal(path: str | Path | None, environ: Mapping[str, str]) -> _Read | None:
    """Find the config, check its `[journal]`, and return it; `None` if there is no config."""
    found = _first(_choices(path, environ))
    if found is None:
        return None
    read = _checked(found)
    if wrong := list(wrong_journal(read.sections.journal)):
        raise ConfigError(_told(read.source, wrong))
    return read


def _choices(path: str | Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the possible paths of the config; only the named path if there is one."""
    named = path or environ.get("PODIUM_CONFIG")
    if named:
        return (Path(named),)
    home = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return (Path("podium.toml"), Path(home) / "podium" / "podium.toml")


def _first(choices: tuple[Path, ...]) -> Path | None:
    """Return the first path with a file; a single path is returned without a check."""
    return choices[0] if len(choices) == 1 else next((c for c in choices if c.is_file()), None)


def _checked(path: Path) -> _Read:
    """Read a file and validate each table on its own."""
    text = _read(path)
    data, lines = _parse(path, text)
    source = Source(path, lines)
    added = read_added_tables(data)
    try:
        sections = Sections.model_validate({key: data[key] for key in data if key not in added.names})
    except ValidationError as error:
        raise ConfigError(_told(source, [*complaints_of(error), *added.complaints])) from error
    if added.complaints:
        raise ConfigError(_told(source, added.complaints))
    return _Read(source, sections, added.tables, added.planner)


def read_table(path: Path, model: type[_Model]) -> _Model:
    """Return the content of another TOML file than a config.

    Raises:
        ConfigError: the file cannot be read, or is invalid; the message has the lines.
    """
    data, lines = _parse(path, _read(path))
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_told(Source(path, lines), complaints_of(error, model))) from error


def _told(source: Source, found: list[Complaint]) -> str:
    """Join complaints, in the order of their lines."""
    in_order = sorted(found, key=lambda complaint: source.line(complaint[0]))
    return "\n".join(source.told(where, what) for where, what in in_order)


def _read(path: Path) -> str:
    try:
        return read_text(path, _MOST_BYTES)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: invalid UTF-8: save the file as UTF-8") from error
    except FileNotFoundError as error:
        told = "the file does not exist: name another, or write one with `podium init`"
        raise ConfigError(f"{path} cannot be read: {told}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {why_unreadable(error)}") from error


def _parse(path: Path, text: str) -> tuple[dict[str, object], Mapping[KeyPath, int]]:
    try:
        return tomllib.loads(text), lines_of(text)
    except tomllib.TOMLDecodeError as error:
        found = _SYNTAX_LINE.fullmatch(str(error))
        line = found[2] if found else text.count("\n") + 1
        raise ConfigError(f"{path}:{line}: invalid TOML: {found[1] if found else error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply: use fewer levels") from error
