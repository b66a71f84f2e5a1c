"""What a process holds: file descriptors and memory. Tests compare it before and after."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

_PROCESS = Path("/proc/self")


def open_files() -> int:
    return len(os.listdir(_PROCESS / "fd"))  # noqa: PTH208  (its own listing is no path to follow)


def resident_mib() -> float:
    """Return how much memory the process holds, in MiB, after what can be freed is."""
    gc.collect()
    return _status("VmRSS")


@contextmanager
def memory_peak() -> Iterator[Callable[[], float]]:
    """Yield a function that returns by how many MiB the memory has peaked above where the block began."""
    gc.collect()
    (_PROCESS / "clear_refs").write_text("5")  # the peak from here on
    began = _status("VmRSS")
    yield lambda: _status("VmHWM") - began


async def until(holds: Callable[[], bool], *, seconds: float = 10.0) -> None:
    """Wait until something holds that is about to."""
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110  (what is asked for has no event)
            await anyio.sleep(0.002)


def _status(name: str) -> float:
    lines = (_PROCESS / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
