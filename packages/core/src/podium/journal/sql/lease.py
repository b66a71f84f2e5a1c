"""Who holds a lease: one open journal of one process. And how to tell that the process has ended."""

import os
import platform
from pathlib import Path
from uuid import uuid4

PROC = Path("/proc")


def new_holder() -> str:
    """Return a new name for a lease holder in this process.

    It has five parts: host, process id, process namespace, start time of the process, random number.
    """
    pid = os.getpid()
    return f"{platform.node()}:{pid}:{_namespace()}:{_start_time(pid) or ''}:{uuid4().hex[:8]}"


def has_ended(holder: str) -> bool:
    """Return whether the process of a lease holder is known to have ended; `False` if it cannot be known."""
    parts = holder.rsplit(":", 4)
    namespace = _namespace()
    if len(parts) != 5 or not parts[1].isdigit() or not namespace or parts[2] != namespace:
        return False
    return _start_time(int(parts[1])) != parts[3]


def _namespace() -> str:
    """Return what process ids are unique in: a boot of a machine and a pid namespace; empty if unknown."""
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
