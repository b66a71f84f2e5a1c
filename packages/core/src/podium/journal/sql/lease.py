"""Who holds a run: one opened journal of one process, and how to see that the process is gone."""

import os
import platform
from pathlib import Path
from uuid import uuid4

PROC = Path("/proc")


def new_holder() -> str:
    """Return a name for a holder in this process: host, process, where and when ids count, and a number."""
    pid = os.getpid()
    return f"{platform.node()}:{pid}:{_space()}:{_began(pid) or ''}:{uuid4().hex[:8]}"


def is_gone(holder: str) -> bool:
    """Say whether a holder's process is known to have ended; what cannot be known is `False`."""
    parts = holder.rsplit(":", 4)
    space = _space()
    if len(parts) != 5 or not parts[1].isdigit() or not space or parts[2] != space:
        return False
    return _began(int(parts[1])) != parts[3]


def _space() -> str:
    """Return what process ids count in, this boot of a machine and a pid namespace; empty if unknown."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}.{(PROC / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """Return when a process began, in ticks since the boot; `None` if there is none, or none that runs."""
    try:
        state, *rest = (PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else rest[18]
