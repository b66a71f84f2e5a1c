"""Shows the result of a calibration: a table for each kind, or JSON."""

from math import inf
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from podium.cli.screen import Screen, counted
from podium.workers.rates import KindEntry, RateEntry
from podium_evals.calibration.calibrate import Calibration
from podium_evals.calibration.rates import best_chances

FEW = 3
"""Minimum number of questions of a kind; with fewer, the table advises to ask more."""


def draw_calibration(screen: Screen, found: Calibration) -> None:
    """Print a table for each kind to stdout."""
    for kind in found.kinds:
        entry = found.measured.kinds.get(kind)
        if entry is None:
            screen.result(f"{kind}: no worker has answered")
            continue
        screen.result(f"{kind}: {counted(len(entry.questions), 'question')}, measured on {entry.measured_on}")
        screen.draw(_table(screen, entry))
        best, chance = best_of(entry)
        others = "" if len(entry.rates) == 1 else f", with probability {chance:.2f}"
        screen.result(f"Best: {best}{others}. Rate {_interval(entry.rates[best])}.")
        if len(entry.questions) < FEW:
            screen.result(f"Ask at least {FEW} questions of a kind.")
        screen.result("")


def best_of(entry: KindEntry) -> tuple[str, float]:
    """Return the worker with the highest rate on a kind, and its probability to be the best.

    Of equal workers, the one whose answers cost least.
    """
    rates = list(entry.rates.values())
    chances = best_chances(
        np.asarray([rate.prior for rate in rates]),
        np.asarray([rate.right for rate in rates]),
        np.asarray([rate.answers for rate in rates], dtype=np.float64),
    )
    costs = [inf if rate.cost is None else rate.cost / rate.answers for rate in rates]
    best = max(range(len(rates)), key=lambda number: (rates[number].rate, -costs[number]))
    return list(entry.rates)[best], float(chances[best])


def calibration_json(found: Calibration) -> dict[str, Any]:
    """Return the result of a calibration as JSON values."""
    kinds: dict[str, Any] = {}
    for kind in found.kinds:
        entry = found.measured.kinds.get(kind)
        if entry is not None:
            best, chance = best_of(entry)
            kinds[kind] = entry.model_dump(mode="json") | {"best": best, "best_probability": chance}
    summary = found.summary
    return {
        "kinds": kinds,
        "stale": [{"worker": worker, "kind": kind} for worker, kind in found.stale],
        "reused": found.reused,
        "failed": dict(summary.failed),
        "stopped": summary.stopped,
        "calls": summary.spent.calls,
        "cost": summary.spent.cost,
    }


def _table(screen: Screen, entry: KindEntry) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("worker", overflow="fold", min_width=14)
    for title in ("right", "rate", "95 %", "$"):
        table.add_column(title, justify="right", no_wrap=True)
    ranked = sorted(entry.rates.items(), key=lambda named: -named[1].rate)
    for name, rate in ranked:
        cost = "unknown" if rate.cost is None else f"{rate.cost:.4f}"
        right = f"{rate.right:.4g} of {rate.answers}"
        table.add_row(
            Text(screen.shown(name)), right, f"{rate.rate:.2f}", f"{rate.low:.2f} to {rate.high:.2f}", cost
        )
    return table


def _interval(rate: RateEntry) -> str:
    return f"{rate.rate:.2f}, 95 % interval {rate.low:.2f} to {rate.high:.2f}"
