"""Which files of a folder are its documents, and what stands in them.

Only regular files inside the folder are read: hidden ones, links that lead out of it,
binary and very large ones are passed over. Knows no passages.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from podium.errors import WorkerRefused, WorkerUnavailable
from podium.messages import storable

SUFFIXES = frozenset((".md", ".markdown", ".txt", ".rst"))
MAX_BYTES = 2 * 2**20
"""Largest file that is read, in bytes."""
MAX_FILES = 20_000
"""Most documents a folder may have."""


class Stamp(NamedTuple):
    """What changes when a file does."""

    modified: int
    """In nanoseconds."""
    size: int
    """In bytes."""
    inode: int


def documents_in(folder: Path) -> dict[str, Stamp]:
    """Return the documents of a folder, by their paths in it, in order.

    Raises:
        WorkerUnavailable: the folder is gone or cannot be read.
        WorkerRefused: it has too many documents.
    """
    found: dict[str, Stamp] = {}
    try:
        root = folder.resolve(strict=True)
        with os.scandir(root):
            pass
    except OSError as error:
        raise WorkerUnavailable(f"folder {folder.name!r} cannot be read: {error.strerror}") from error
    for path in _walk(root):
        stamp = _stamp(path, root)
        if stamp is not None:
            found[path.relative_to(root).as_posix()] = stamp
            if len(found) > MAX_FILES:
                raise WorkerRefused(
                    f"folder {folder.name!r} has more than {MAX_FILES:,} documents: name a narrower one"
                )
    return dict(sorted(found.items()))


def read_document(folder: Path, source: str) -> str:
    """Return the text of a document; what is not UTF-8 in it is replaced.

    An empty text stands for a file that is binary, too large by now, or gone.
    """
    try:
        with (folder / source).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError:
        return ""
    if len(raw) > MAX_BYTES or b"\0" in raw[:8192]:
        return ""
    return storable(raw.decode("utf-8-sig", errors="replace"))


def _walk(root: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (
            Path(parent, name)
            for name in sorted(files)
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
        )


def _stamp(path: Path, root: Path) -> Stamp | None:
    """Return the stamp of a file that may be read."""
    try:
        if path.is_symlink() and not path.resolve(strict=True).is_relative_to(root):
            return None
        status = path.stat()
    except (OSError, RuntimeError):
        return None
    # A pipe named like a text would be waited on for ever.
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        return None
    return Stamp(status.st_mtime_ns, status.st_size, status.st_ino)
