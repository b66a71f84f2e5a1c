"""Creates the names of lease holders, and detects whether the process of a holder has ended.

A holder is one open journal of one process.
"""

import os
import platform
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

PROC = Path("/proc")

open_fences: set[str] = set()
"""The fences of the runs that this process is running."""


def is_given_up(holder: str, fence: str) -> bool:
    """Return whether this process held a run and released it while the database failed."""
    return holder.rpartition(":")[2].startswith(_token(os.getpid())) and fence not in open_fences


def new_holder() -> str:
    """Return a new name: host, process id, its namespace, its start time, and a number of this process."""
    pid = os.getpid()
    number = _token(pid) + uuid4().hex[:8]
    return f"{platform.node()}:{pid}:{_namespace()}:{_start_time(pid) or ''}:{number}"


def is_held(row: Any) -> bool:
    """Return whether a live process holds the run of a row, which has `holder`, `fence` and `is_live`."""
    holder, fence = row["holder"], row["fence"]
    if holder is None or not row["is_live"]:
        return False
    return not has_ended(holder) and not is_given_up(holder, fence)


def process_of(holder: str) -> str:
    """Return the process and host of a holder, for messages."""
    host, pid = holder.rsplit(":", 4)[:2]
    return f"process {pid} on {host}"


def has_ended(holder: str) -> bool:
    """Return whether the process of a holder is known to have ended."""
    parts = holder.rsplit(":", 4)
    namespace = _namespace()
    if len(parts) != 5 or not parts[1].isdigit() or not namespace or parts[2] != namespace:
        return False
    return _start_time(int(parts[1])) != parts[3]


@cache
def _token(pid: int) -> str:
    """Return the prefix for the numbers of this process's holders; a forked process has its own."""
    del pid
    return uuid4().hex[:16]


def _namespace() -> str:
    """Return the scope in which process ids are unique: boot id and pid namespace; empty if unknown."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}.{(PROC / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since the boot; `None` if no such process runs."""
    try:
        state, *rest = (PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else rest[18]
