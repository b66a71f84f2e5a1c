"""Reads the documents of a folder, and cuts them into passages that can be cited."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from podium.errors import WorkerUnavailable
from podium.types.messages import storable

SUFFIXES = frozenset((".md", ".markdown", ".txt", ".rst"))
MAX_BYTES = 2 * 2**20
"""Maximum size of a file, in bytes; larger files are ignored."""
MAX_CHARS = 1_500
"""Maximum length of a passage, in characters."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class Passage:
    """A verbatim part of a file."""

    source: str
    """Path of the file in its folder, with `/`."""
    line: int
    """Its first line, from 1."""
    headings: tuple[str, ...]
    """The headings above it, outermost first."""
    text: str


def documents_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the path of each document in a folder, with its modification time and size.

    Hidden files, links out of the folder, very large files, and files that are not regular are ignored.

    Raises:
        WorkerUnavailable: the folder does not exist or cannot be read.
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
                # Reading a pipe with the name of a text file would never end.
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
    """Cut a document at Markdown headings, between paragraphs, and where a passage would be too long.

    Bytes that are not UTF-8 are replaced. A binary file and a file that no longer exists have no passages.
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
    """Yield the lines of a text with their numbers; very long lines in several pieces."""
    for number, line in enumerate(re.split("\r\n|\r|\n", text), start=1):
        for start in range(0, len(line) or 1, MAX_CHARS):
            yield number, line[start : start + MAX_CHARS].rstrip()
