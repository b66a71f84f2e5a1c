"""Measures the CPU time of whole commands: `python -m benchmarks.startup`.

Each command runs offline, in its own process and folder. The figure is the user plus system time of the
process, the median of several runs, which other load affects little. Bytecode is cached, as after an
installation by pip: a first run, which is not measured, compiles it.
"""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

LIMITS = {("--help",): 0.35, ("run", "12*13"): 1.0}
"""Each command with its limit, in CPU seconds."""


def cpu_seconds(command: list[str], folder: Path) -> float:
    """Return the user and system time of one process, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    state = {**os.environ, "XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    state |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run(  # noqa: S603 - our own command
        command, cwd=folder, env=state, check=True, capture_output=True, timeout=60
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> int:
    """Measure each command, print a line for it, and return 1 if a command exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=5, help="Number of runs of each command; the median is used."
    )
    runs: int = parser.parse_args().runs
    podium = [sys.executable, "-m", "podium"]
    over = False
    with TemporaryDirectory() as name:
        folder = Path(name)
        cpu_seconds([*podium, "init", "--preset", "offline"], folder)
        for arguments, limit in LIMITS.items():
            took = [cpu_seconds([*podium, *arguments], folder) for _ in range(runs + 1)][1:]
            over |= median(took) > limit
            spread = f"{min(took):.2f} to {max(took):.2f}"
            told = f"podium {' '.join(arguments)}: {median(took):.2f} s of CPU ({spread}), limit {limit:g} s"
            print(told)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    return int(over)


if __name__ == "__main__":
    raise SystemExit(main())
