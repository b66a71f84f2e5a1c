"""Keeps SQLite files whole when the process forks.

SQLite's connections must not be used across a fork. A child must not even open a file that its parent had
open at the fork: SQLite would count the parent's locks as the child's own, and take none. So a fork waits for
the transactions under way and closes all connections first; the parent opens them again. If a transaction
does not end in time, the child refuses its file.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, get_ident

from podium.errors import JournalError

WAIT_SECONDS = 5.0
"""How long a fork waits for the transactions under way, and these for a fork."""

FileId = tuple[int, int]
"""Device and number of a file, whatever path names it."""


class _Forks:
    """Lets the uses of SQLite by all threads and the forks of the process take turns."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._under_way = 0
        """Forks: no use begins meanwhile."""
        self._uses: dict[int, Path] = {}
        """By thread, the file that it uses."""
        self._still_used: set[Path] = set()
        """Files that were in use when a fork under way stopped waiting."""
        self._inherited: set[FileId] = set()
        """Files that were in use in the parent of this process when it forked."""
        self._close: list[Callable[[], None]] = []

    def closes(self, close: Callable[[], None]) -> None:
        """Have `close` called before each fork; it closes connections that no thread uses."""
        self._close.append(close)

    @contextmanager
    def held_off(self, path: Path) -> Generator[None, None, None]:
        """Hold off forks while this thread opens, uses or closes a connection to a file."""
        thread = get_ident()
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, WAIT_SECONDS)
            self._uses[thread] = path
        try:
            yield
        finally:
            with self._changed:
                self._uses.pop(thread, None)
                self._changed.notify_all()

    def check(self, path: Path) -> None:
        """Refuse a file that was in use in the parent when this process was forked.

        Raises:
            JournalError: it was.
        """
        if self._inherited and file_id(path) in self._inherited:
            raise JournalError(
                f"{path} was in use when this process was forked, so SQLite cannot open it here: "
                "start processes with multiprocessing's 'spawn' or 'forkserver', "
                "or open the journal in the children only"
            )

    def before(self) -> None:
        """Wait for the uses by other threads, and close all connections."""
        with self._changed:
            self._under_way += 1
            self._changed.wait_for(lambda: not self._uses.keys() - {get_ident()}, WAIT_SECONDS)
            self._still_used.update(self._uses.values())
        for close in self._close:
            close()

    def after_in_parent(self) -> None:
        """Let uses begin again."""
        with self._changed:
            self._under_way -= 1
            self._still_used.clear()
            self._changed.notify_all()

    def after_in_child(self) -> None:
        """Note the files in use. The threads of the parent, which hold locks, are not in the child."""
        found = {file_id(path) for path in (*self._still_used, *self._uses.values())}
        self._inherited |= {each for each in found if each is not None}  # a deleted file cannot be opened
        self._changed, self._under_way, self._uses, self._still_used = Condition(), 0, {}, set()


def file_id(path: Path) -> FileId | None:
    """Return what names a file whatever path leads to it; `None` if there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


FORKS = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=FORKS.before, after_in_parent=FORKS.after_in_parent, after_in_child=FORKS.after_in_child
    )
