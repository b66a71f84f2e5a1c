"""The command: fills a database with made runs, and measures the queries.

`python -m benchmarks.journal_size --runs 1000000 --database postgres` fills databases of three sizes,
each ten times the one before, up to the given number of runs, and prints the milliseconds of each query at
each size, with the exponent of its growth between the last two. Then it prints the size on disk, and the time
and the peak memory of operations on all runs. A million runs need about 8 GB in the temporary folder.
"""

import argparse
import sys
from collections import defaultdict
from contextlib import ExitStack
from math import log10
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import psycopg

from benchmarks.journal_size.fill import fill
from benchmarks.journal_size.measure import measure
from benchmarks.journal_size.whole import OPERATIONS, measure_whole
from benchmarks.postgres_server import PostgresServer

_SIZES = 3


def main() -> int:
    """Run the command."""
    asked = _parser().parse_args()
    sizes = [asked.runs] if asked.reuse else [asked.runs // 10**power for power in reversed(range(_SIZES))]
    found: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        server = None
        if asked.database == "postgres" and asked.reuse is None:
            server = stack.enter_context(PostgresServer())
        for runs in sizes:
            if asked.reuse is not None:
                url = asked.reuse
            elif server is not None:
                url = server.url(server.create_database(), driver="postgresql")
            else:
                url = f"sqlite:///{folder}/{runs}.db"
            if asked.reuse is None:
                anyio.run(fill, url, runs)
            print(f"{runs} runs: {_bytes(url) / runs:,.0f} bytes each", flush=True)
            anyio.run(_measure, url, runs, asked.only, found)
        _show(found)
        for operation in () if asked.only else OPERATIONS:
            whole = measure_whole(operation, url)
            print(
                f"{operation} {runs} runs: {whole.seconds:,.0f} s, CPU {whole.cpu_seconds:,.0f} s, "
                f"peak {whole.peak_mib:,.0f} MiB",
                flush=True,
            )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.journal_size", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000, help="runs of the largest size")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--reuse", metavar="URL", help="measure a database that was filled with --runs")
    parser.add_argument("--only", default="", help="a part of the names of the queries to measure")
    return parser


async def _measure(url: str, runs: int, only: str, found: dict[str, list[float]]) -> None:
    async for name, seconds in measure(url, runs, only):
        found[name].append(seconds)
        print(f"{runs:9,} {name:40} {seconds * 1e3:10.2f} ms", file=sys.stderr, flush=True)


def _bytes(url: str) -> float:
    """Return the size of a database on disk."""
    if url.startswith("sqlite"):
        return Path(url.removeprefix("sqlite:///")).stat().st_size
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return float(row[0])


def _show(found: dict[str, list[float]]) -> None:
    for name, seconds in found.items():
        growth = f"{log10(seconds[-1] / seconds[-2]):5.2f}" if len(seconds) > 1 else ""
        print(f"{name:40} {' '.join(f'{each * 1e3:10.2f}' for each in seconds)} ms {growth}")


if __name__ == "__main__":
    sys.exit(main())
