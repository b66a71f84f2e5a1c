"""Measures an operation on all runs in a process of its own: seconds, CPU seconds and peak memory."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from time import perf_counter, process_time

import anyio

from benchmarks.resident_memory import peak_kib
from podium.journal import SqlJournal, anchors_of, export, verify_runs

OPERATIONS = ("list", "verify", "anchors", "export")


@dataclass(frozen=True, slots=True)
class Whole:
    """One operation on all runs."""

    seconds: float
    cpu_seconds: float
    """Of the process; the CPU time of PostgreSQL does not count."""
    peak_mib: float


def measure_whole(operation: str, url: str) -> Whole:
    """Measure an operation."""
    command = [sys.executable, "-m", "benchmarks.journal_size.whole", operation, url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own command
    return Whole(**json.loads(done.stdout))


async def _all(operation: str, url: str) -> None:
    async with SqlJournal(url) as journal:
        match operation:
            case "list":
                async for page in journal.pages(nested=True):
                    assert page
            case "verify":
                assert await verify_runs(journal) == ()
            case "anchors":
                async for anchor in anchors_of(journal):
                    assert anchor.records > 0
            case "export":
                async for line in export(journal):
                    assert line


def main() -> None:
    """Run one operation, and print its figures as JSON."""
    operation, url = sys.argv[1:]
    began, cpu = perf_counter(), process_time()
    anyio.run(_all, operation, url)
    seconds, cpu_seconds = perf_counter() - began, process_time() - cpu
    print(json.dumps(asdict(Whole(seconds, cpu_seconds, peak_kib() / 1024))))


if __name__ == "__main__":
    main()
