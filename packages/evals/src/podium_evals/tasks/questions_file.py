"""Writes questions to a file of JSON lines, which `podium evals record ask` reads."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from podium.config.source import why_unwritable
from podium.errors import ConfigError


def draw_rows(rows: Sequence[Mapping[str, Any]], count: int | None, seed: int) -> list[Mapping[str, Any]]:
    """Return `count` rows, drawn by content and seed, in the order of the source; `None` takes all."""
    if count is None or count >= len(rows):
        return list(rows)
    keys = [sha256(f"{seed}/{row['question']}".encode("utf-8", "surrogatepass")).digest() for row in rows]
    drawn = sorted(range(len(rows)), key=lambda place: (keys[place], place))[:count]
    return [rows[place] for place in sorted(drawn)]


def write_questions(rows: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write a new file of questions, and return their number. A failed write leaves no partial file.

    Raises:
        ConfigError: the file already exists or cannot be written, or a row is not JSON.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        lines = [json.dumps(row, ensure_ascii=True) + "\n" for row in rows]
        if path.exists():
            raise ConfigError(f"{path} already exists: choose another file")
        with part.open("x", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error
    finally:
        part.unlink(missing_ok=True)
    return len(lines)
