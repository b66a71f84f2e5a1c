"""Reads the documents of a folder and cuts them into passages that can be cited; knows no index."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from podium.errors import WorkerUnavailable
from podium.types.messages import storable

SUFFIXES = frozenset((".md", ".markdown", ".txt", ".rst"))
MAX_BYTES = 2 * 2**20
"""Largest file that is read, in bytes."""
MAX_CHARS = 1_500
"""Longest passage, in characters."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a file, word for word."""

    source: str
    """Path of the file in its folder, with `/`."""
    line: int
    """Where it starts, from 1."""
    headings: tuple[str, ...]
    """The headings it stands under, outermost first."""
    text: str


def documents_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the documents of a folder by their paths in it, each with what changes when the file does.

    Only regular files that lie inside the folder: hidden ones, links that lead out and very
    large files are passed over.

    Raises:
        WorkerUnavailable: the folder is gone or cannot be read.
    """
    try:
        root = folder.resolve(strict=True)
        with os.scandir(root):
            pass
    except OSError as error:
        raise WorkerUnavailable(f"folder {folder.name!r} cannot be read: {error.strerror}") from error
    found: dict[str, tuple[int, int]] = {}
    for parent, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(parent, name) for name in files if not name.startswith(".")):
            try:
                # A pipe named like a text would be waited on for ever.
                if path.suffix.lower() not in SUFFIXES or not path.is_file():
                    continue
                if path.is_symlink() and not path.resolve().is_relative_to(root):
                    continue
                status = path.stat()
            except (OSError, RuntimeError):
                continue
            if status.st_size <= MAX_BYTES:
                found[path.relative_to(root).as_posix()] = (status.st_mtime_ns, status.st_size)
    return dict(sorted(found.items()))


def passages_of(folder: Path, source: str) -> list[Passage]:
    """Cut a document at Markdown headings, between paragraphs, and where a passage gets too long.

    What is not UTF-8 in it is replaced. A file that is binary, or gone by now, has no passages.
    """
    try:
        raw = (folder / source).read_bytes()
    except OSError:
        return []
    if b"\0" in raw:
        return []
    found: list[Passage] = []
    headings: list[tuple[int, str]] = []
    lines: list[tuple[int, str]] = []
    size, in_code = 0, False

    def finish() -> None:
        text = "\n".join(line for _, line in lines).rstrip()
        if text:
            found.append(Passage(source, lines[0][0], tuple(title for _, title in headings), text))
        lines.clear()

    for number, line in _lines(storable(raw.decode("utf-8-sig", errors="replace"))):
        heading = None if in_code else _HEADING.fullmatch(line)
        if heading or size + len(line) > MAX_CHARS or (not line and not in_code and size > MAX_CHARS // 2):
            finish()
            size = 0
        in_code ^= _FENCE.match(line) is not None
        if heading:
            level = len(heading[1])
            headings = [*(outer for outer in headings if outer[0] < level), (level, heading[2].rstrip("# "))]
        elif line or lines:
            lines.append((number, line))
            size += len(line) + 1
    finish()
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their numbers, very long ones in pieces."""
    for number, line in enumerate(re.split("\r\n|\r|\n", text), start=1):
        for start in range(0, len(line) or 1, MAX_CHARS):
            yield number, line[start : start + MAX_CHARS].rstrip()
