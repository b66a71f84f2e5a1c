"""Finds the config file, reads it, and reports what is wrong with it by line."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from podium.config.added_tables import read_added_tables
from podium.config.complaints import Complaint, complaints_of, dangling, wrong_journal
from podium.config.config import Config
from podium.config.files import read_text
from podium.config.sections import Sections
from podium.config.source import Source
from podium.config.toml_lines import KeyPath, lines_of
from podium.errors import ConfigError
from podium.journal import Journal, SqlCache, SqlJournal

_MOST_BYTES = 2**20
_SYNTAX_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)


def find_config(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the config is.

    It is looked for at `path`, else where `PODIUM_CONFIG` says, else in `podium.toml` here,
    else in `podium/podium.toml` of the user's config folder.

    Raises:
        ConfigError: there is none.
    """
    choices = _choices(path, environ)
    found = _first(choices)
    if found is None:
        told = " nor ".join(str(choice) for choice in choices)
        raise ConfigError(f"no config at {told}: write one with `podium init`, or name one with --config")
    return found


def find_journal(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Journal:
    """Return the journal that the config names; without a config, the one in the user's state folder.

    Needs neither workers nor keys.

    Raises:
        ConfigError: the config is wrong, or says that nothing is recorded.
    """
    found = _with_journal(path, environ)
    if found is None:
        return SqlJournal()
    journal = found.config().journal()
    if journal is None:
        told = "nothing is recorded: take out `off` in [journal]"
        raise ConfigError(found.source.told(("journal", "off"), told))
    return journal


def find_shared_cache(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> SqlCache:
    """Return the answers that are kept beside the journal of `find_journal`, even if that is off.

    Raises:
        ConfigError: the config is wrong.
    """
    found = _with_journal(path, environ)
    if found is None:
        return SqlCache()
    return found.config().shared_cache()


def load_config(path: str | Path) -> Config:
    """Read and check a `podium.toml`.

    Keys are not read, nor is anything opened, before `Config.conductor`.

    Raises:
        ConfigError: the file cannot be read, or what stands in it is wrong; one line for
            each finding, with file and line.
    """
    read = _checked(Path(path))
    if wrong := list(dangling(read.sections)):
        raise ConfigError(_told(read.source, wrong))
    return read.config()


@dataclass(frozen=True, slots=True)
class _Read:
    """A file whose tables fit their models."""

    source: Source
    sections: Sections
    added: Mapping[str, BaseModel]

    def config(self) -> Config:
        return Config(self.sections, self.source, self.added)


def _with_journal(path: str | Path | None, environ: Mapping[str, str]) -> _Read | None:
    """Return the config that is found, its `[journal]` checked; `None` without one."""
    found = _first(_choices(path, environ))
    if found is None:
        return None
    read = _checked(found)
    if wrong := list(wrong_journal(read.sections.journal)):
        raise ConfigError(_told(read.source, wrong))
    return read


def _choices(path: str | Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where a config may be; a place that was named is the only one."""
    named = path or environ.get("PODIUM_CONFIG")
    if named:
        return (Path(named),)
    home = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return (Path("podium.toml"), Path(home) / "podium" / "podium.toml")


def _first(choices: tuple[Path, ...]) -> Path | None:
    """Return the first file that is there; one that was named is taken unseen."""
    return choices[0] if len(choices) == 1 else next((c for c in choices if c.is_file()), None)


def _checked(path: Path) -> _Read:
    """Read a file and check each table by itself."""
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
    return _Read(source, sections, added.tables)


def _told(source: Source, found: list[Complaint]) -> str:
    """Join complaints, in the order of the file."""
    in_order = sorted(found, key=lambda complaint: source.line(complaint[0]))
    return "\n".join(source.told(where, what) for where, what in in_order)


def _read(path: Path) -> str:
    try:
        return read_text(path, _MOST_BYTES)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: this is not UTF-8: save the file as UTF-8") from error
    except FileNotFoundError as error:
        told = "there is no such file: name another, or write one with `podium init`"
        raise ConfigError(f"{path} cannot be read: {told}") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{path} cannot be read: it is a folder: name the file in it") from error
    except PermissionError as error:
        told = "permission is denied: change the file's permissions, or name another"
        raise ConfigError(f"{path} cannot be read: {told}") from error
    except OSError as error:
        told = error.strerror or str(error)
        raise ConfigError(f"{path} cannot be read: {told}: repair the file, or name another") from error
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _parse(path: Path, text: str) -> tuple[dict[str, object], Mapping[KeyPath, int]]:
    try:
        return tomllib.loads(text), lines_of(text)
    except tomllib.TOMLDecodeError as error:
        found = _SYNTAX_LINE.fullmatch(str(error))
        line = found[2] if found else text.count("\n") + 1
        raise ConfigError(f"{path}:{line}: this is no TOML: {found[1] if found else error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deep: write it flat") from error
