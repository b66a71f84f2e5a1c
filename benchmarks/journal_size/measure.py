"""Measures the queries on one filled database."""

from collections.abc import AsyncIterator
from statistics import median
from time import perf_counter

import anyio

from benchmarks.journal_size.queries import Query, opened, queries

_SECONDS = 1.0
"""A query is repeated for so long."""
_MOST = 50
_LONGEST = 120.0
"""A query that takes longer is cancelled, in seconds."""


async def measure(url: str, runs: int, only: str = "") -> AsyncIterator[tuple[str, float]]:
    """Yield each query, and the median of its seconds.

    Args:
        url: a filled database.
        runs: the number of its runs.
        only: a part of the names of the queries to measure.
    """
    async with opened(url, runs) as at:
        for name, query in queries(at).items():
            if only in name:
                yield name, await _median(query)


async def _median(query: Query) -> float:
    took: list[float] = []
    until = perf_counter() + _SECONDS
    while len(took) < 2 or (perf_counter() < until and len(took) < _MOST):
        began = perf_counter()
        with anyio.move_on_after(_LONGEST) as scope:
            await query()
        if scope.cancelled_caught:
            return float("inf")
        took.append(perf_counter() - began)
        if took[-1] > _SECONDS:
            break
    return median(took[1:] or took)
