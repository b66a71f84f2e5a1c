"""Keeps SQLite connections open between two uses, so that a run need not open the file again.

No code uses a kept connection until a call of `take`, in any event loop and thread, returns it. All kept
connections are closed at the end of the process and before a fork.
"""

import atexit
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from podium.journal.sql.database import Synchronous, Tenure
from podium.journal.sql.forks import FORKS, FileId, file_id

MOST = 8
"""Maximum number of kept connections, one for each file; the oldest is closed first."""


@dataclass(frozen=True, slots=True)
class Parked:
    """A kept connection."""

    connection: sqlite3.Connection
    tenure: Tenure
    file: FileId
    """Shows whether the path still names the same file."""


_parked: dict[tuple[Path, Synchronous], Parked] = {}
_lock = Lock()


def park(path: Path, synchronous: Synchronous, connection: sqlite3.Connection, tenure: Tenure) -> None:
    """Keep a connection that no transaction uses."""
    file = file_id(path)
    if file is None:  # the file was deleted
        connection.close()
        return
    made = Parked(connection, tenure, file)
    with _lock:
        before = _parked.pop((path, synchronous), None)
        _parked[path, synchronous] = made
        surplus = [_parked.pop(key) for key in list(_parked)[:-MOST]]
    for each in [*surplus, *([] if before is None else [before])]:
        each.connection.close()


def take_parked(path: Path, synchronous: Synchronous) -> Parked | None:
    """Remove the kept connection to a file and return it; `None` if there is none."""
    with _lock:
        kept = _parked.pop((path, synchronous), None)
    if kept is not None and kept.file != file_id(path):  # another file is at this path now
        kept.connection.close()
        return None
    return kept


def drop_parked(path: Path) -> None:
    """Close the kept connections to a file."""
    with FORKS.held_off(path):
        with _lock:
            dropped = [_parked.pop(key) for key in list(_parked) if key[0] == path]
        for each in dropped:
            each.connection.close()


def _drop_all() -> None:
    with _lock:
        dropped = list(_parked.values())
        _parked.clear()
    for each in dropped:
        each.connection.close()


def _forget_lock() -> None:
    global _lock  # noqa: PLW0603 - a thread of the parent may hold the old lock
    _lock = Lock()


atexit.register(_drop_all)
FORKS.closes(_drop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)
