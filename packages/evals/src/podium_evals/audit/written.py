"""Writes a report to a file. A failed write leaves no partial file."""

import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from podium.errors import ConfigError


def check_target(target: Path, sources: Iterable[Path]) -> None:
    """Check that the report can be written, before minutes are spent on reading an export.

    Raises:
        ConfigError: the target is a source, or its folder does not exist.
    """
    where = target.resolve()
    if where in {source.resolve() for source in sources}:
        raise ConfigError(f"{target} is a file to audit: choose another file for the report")
    if why := _why_not(where):
        raise ConfigError(f"{target} cannot be written: {why}")


def _why_not(target: Path) -> str:
    try:
        if target.is_dir():
            return "it is a folder"
    except OSError as error:
        return error.strerror or str(error)
    return "" if target.parent.is_dir() else f"there is no folder {target.parent}"


def write(target: Path, text: str) -> None:
    """Write a file; an earlier file of the same name is replaced.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        with NamedTemporaryFile(
            "w", dir=target.parent, prefix=f".{target.name}.", delete=False, encoding="utf-8"
        ) as file:
            made = Path(file.name)
            try:
                file.write(text.encode("utf-8", "replace").decode("utf-8"))
                file.flush()
                made.chmod(0o666 & ~_umask())
                made.replace(target)
            except BaseException:  # raised again: the partial file is removed first
                made.unlink()
                raise
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from error


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now
