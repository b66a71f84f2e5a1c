"""The command, which measures, prints the tables, and writes the JSON."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import psycopg
from rich.console import Console

from benchmarks.durability.cancel_latency import measure_cancels
from benchmarks.durability.measure import GROUPS, Places, Reading, file_system, flush_ms, measure
from benchmarks.durability.report import Report, in_flight
from benchmarks.postgres_server import PostgresServer
from podium.errors import PodiumError

_SETTINGS = ("server_version", "fsync", "synchronous_commit", "wal_sync_method")
_WIDTH = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if everything was measured, whether or not the limits are met."""
    console, errors = Console(), Console(stderr=True)
    if not console.is_terminal:
        console.width = _WIDTH
    asked = _parser().parse_args(arguments)
    try:
        report = anyio.run(_measure, asked, errors)
    except PodiumError as error:
        errors.print(str(error), style="red", markup=False)
        return 1
    report.show(console)
    if asked.json is not None:
        asked.json.write_text(json.dumps(report.to_json(), indent=2) + "\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.durability", description="Measures durability."
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a block; default 4")
    parser.add_argument("--rounds", type=int, default=5, help="blocks of each arm; default 5")
    parser.add_argument("--cancels", type=int, default=500, help="number of cancelled runs; default 500")
    parser.add_argument(
        "--folder", type=Path, help="folder of the SQLite files; default: the temporary folder"
    )
    parser.add_argument("--quick", action="store_true", help="one short block of each arm, and few cancels")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    return parser


async def _measure(asked: argparse.Namespace, progress: Console) -> Report:
    rounds, seconds = (1, 0.2) if asked.quick else (asked.rounds, asked.seconds)
    readings: list[Reading] = []
    with PostgresServer() as postgres, TemporaryDirectory(dir=asked.folder) as folder:
        places = Places(Path(folder), postgres)
        flush, disk, told = flush_ms(places.folder), file_system(places.folder), _told(postgres)
        for group in GROUPS:
            progress.print(f"{', '.join(group.arms)}: {group.latency_ms} ms, {in_flight(group)}", style="dim")
            readings += await measure(group, places, rounds=rounds, seconds=seconds)
    cancels = await measure_cancels(20 if asked.quick else asked.cancels)
    return Report(
        readings=tuple(readings), cancels=cancels, flush_ms=flush, disk=disk, postgres=f"PostgreSQL: {told}"
    )


def _told(postgres: PostgresServer) -> str:
    told: list[str] = []
    with psycopg.connect(postgres.url(driver="postgresql")) as connection:
        for name in _SETTINGS:
            row = connection.execute(f"SHOW {name}").fetchone()
            told += [f"{name}={row[0]}"] if row else []
    return ", ".join(told)


if __name__ == "__main__":
    sys.exit(main())
