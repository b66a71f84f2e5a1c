"""The command, which measures the gateways in turn, and prints the table and the bars."""

import argparse
import json
import os
import resource
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar, bars_table
from benchmarks.gateway import model_server
from benchmarks.gateway.gateways import CORE, GATEWAYS
from benchmarks.gateway.measure import IN_FLIGHT, Load, Reading, measure
from benchmarks.gateway.processes import started
from podium.errors import PodiumError

_FILES = 16_384
_QUICK = Load(requests=40, seconds=1.0, streams=50)
_WHOLE = Load(requests=400, seconds=5.0, streams=2_000)
_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run the command; return 0 if everything was measured, whether or not the limits are met."""
    chosen = _read_options()
    console = Console() if sys.stdout.isatty() else Console(width=130)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    others = set(range(os.cpu_count() or 1)) - {CORE}
    os.sched_setaffinity(0, others or {CORE})
    try:
        readings = [
            reading for _ in range(chosen.rounds) for reading in _round(chosen.gateways, chosen.quick)
        ]
    except PodiumError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    console.print(_table(readings))
    bars = judge(readings)
    console.print(bars_table(bars))
    if chosen.json is not None:
        found = {"readings": [asdict(each) for each in readings], "bars": [bar.to_json() for bar in bars]}
        chosen.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


def _round(names: Sequence[str], quick: bool) -> list[Reading]:  # noqa: FBT001 - an option of the command
    """Measure each gateway once, one after the other."""
    readings = []
    command = (sys.executable, "-m", model_server.__name__, "{port}")
    for name in names:
        with ExitStack() as stack:
            model = stack.enter_context(started(command, core=1 - CORE, path="/v1", folder=_ROOT))
            folder = Path(stack.enter_context(TemporaryDirectory()))
            gateway = stack.enter_context(GATEWAYS[name](model.url, folder))
            load = _QUICK if quick else _WHOLE
            readings.append(anyio.run(measure, gateway, model, load))
    return readings


def judge(readings: Sequence[Reading]) -> list[Bar]:
    """Return the limits of Podium; of several readings of a gateway, the best value of each counts.

    The best value is the one that other processes of the machine disturbed least.
    """

    def best(gateway: str, name: str, *, most: bool = False) -> float | None:
        values = [getattr(each, name) for each in readings if each.gateway == gateway]
        known = [value for value in values if value is not None]
        return (max(known) if most else min(known)) if known else None

    def ratio(over: float | None, under: float | None) -> float | None:
        return None if over is None or not under else over / under

    added, rate = best("podium", "added_ms"), best("podium", "requests_per_s", most=True)
    peer = best("litellm", "added_ms"), best("litellm", "requests_per_s", most=True)
    ended = [each.streams.ended for each in readings if each.gateway == "podium" and each.streams]
    return [
        Bar(what="added latency, median", limit=0.8, unit="ms", measured=added),
        Bar(what="added latency, of LiteLLM's", limit=0.1, unit="", measured=ratio(added, peer[0])),
        Bar(
            what=f"requests/s at {IN_FLIGHT} in flight, of LiteLLM's",
            limit=10,
            unit="",
            at_least=True,
            measured=ratio(rate, peer[1]),
        ),
        Bar(what="memory", limit=90, unit="MB", measured=best("podium", "resident_mb")),
        Bar(
            what="streams at the same time",
            limit=2_000,
            unit="",
            at_least=True,
            measured=max(ended, default=None),
        ),
        Bar(
            what="delay of the first token, median",
            limit=5,
            unit="ms",
            measured=best("podium", "first_token_ms"),
        ),
    ]


def _table(readings: Sequence[Reading]) -> Table:
    table = Table(title="Gateways on one core")
    table.add_column("gateway")
    for head in (
        "added p50, ms",
        "p99",
        f"requests/s at {IN_FLIGHT}",
        "CPU, µs",
        "first token, ms",
        "direct",
        "MB",
    ):
        table.add_column(head, justify="right")
    table.add_column("streams ended", justify="right")
    table.add_column("MB then", justify="right")
    for each in readings:
        table.add_row(
            each.gateway,
            f"{each.added_ms:.2f}",
            f"{each.added_p99_ms:.1f}",
            f"{each.requests_per_s:,.0f}",
            f"{each.cpu_us:,.0f}",
            f"{each.first_token_ms:.2f}",
            f"{each.direct_token_ms:.2f}",
            f"{each.resident_mb:.0f}",
            "" if each.streams is None else f"{each.streams.ended:,}",
            "" if each.streams_mb is None else f"{each.streams_mb:.0f}",
        )
    return table


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway",
        description="Measures what gateways add to requests. Needs Linux, two cores, and 600 MB for LiteLLM.",
    )
    parser.add_argument("--quick", action="store_true", help="few requests and streams")
    parser.add_argument("--rounds", type=int, default=1, help="times each gateway is measured; default 1")
    parser.add_argument(
        "--gateways", nargs="+", choices=list(GATEWAYS), default=list(GATEWAYS), help="gateways; default all"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report to FILE, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
