"""From a file to a `Config`: which file, and what is wrong with it, by line."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from podium.config.complaints import Complaint, complaints_of, dangling
from podium.config.config import Config
from podium.config.lines import KeyPath, lines_of
from podium.config.sections import Sections
from podium.config.source import Source
from podium.errors import ConfigError
from podium.files import read_text

_MOST_BYTES = 2**20
_SYNTAX_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)


def find_config(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the config is.

    It is looked for at `path`, else where `PODIUM_CONFIG` says, else in `podium.toml` here,
    else in `podium/podium.toml` of the user's config folder.

    Raises:
        ConfigError: there is none.
    """
    named = path or environ.get("PODIUM_CONFIG")
    if named:
        return Path(named)
    home = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    choices = (Path("podium.toml"), Path(home) / "podium" / "podium.toml")
    for choice in choices:
        if choice.is_file():
            return choice
    told = " nor ".join(str(choice) for choice in choices)
    raise ConfigError(f"no config at {told}: write one with `podium init`, or name one with --config")


def load_config(path: str | Path) -> Config:
    """Read and check a `podium.toml`.

    Keys are not read, nor is anything opened, before `Config.conductor`.

    Raises:
        ConfigError: the file cannot be read, or what stands in it is wrong; one line for
            each finding, with file and line.
    """
    path = Path(path)
    text = _read(path)
    data, lines = _parse(path, text)
    source = Source(path, lines)
    try:
        sections = Sections.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_told(source, complaints_of(error))) from error
    if found := list(dangling(sections)):
        raise ConfigError(_told(source, found))
    return Config(sections, source)


def _told(source: Source, found: list[Complaint]) -> str:
    """Put complaints together, in the order of the file."""
    in_order = sorted(found, key=lambda complaint: source.line(complaint[0]))
    return "\n".join(source.told(where, what) for where, what in in_order)


def _read(path: Path) -> str:
    try:
        return read_text(path, _MOST_BYTES)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: this is not UTF-8: save the file as UTF-8") from error
    except (OSError, ValueError) as error:
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
