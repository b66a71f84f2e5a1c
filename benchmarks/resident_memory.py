"""Reads the current and the peak resident memory of this process."""

import re
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_kib() -> int:
    """Return the peak resident memory of this process so far, in KiB."""
    # on Linux, `ru_maxrss` includes the parent's value; `VmHWM` does not
    return _status("VmHWM") or _maxrss()


def resident_kib() -> int:
    """Return the resident memory of this process, in KiB; its peak if the system does not report it."""
    return _status("VmRSS") or _maxrss()


def _status(name: str) -> int:
    if not _STATUS.exists():
        return 0
    found = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) if found else 0


def _maxrss() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak
