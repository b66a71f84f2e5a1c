"""`podium batch --check`: reads the whole input, and forecasts the cost. No model is called."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from statistics import quantiles

import anyio

from podium.cli.screen import counted, money
from podium.journal import SqlJournal
from podium_server.batch.earlier import done_runs
from podium_server.batch.input import BadLine, Input
from podium_server.batch.kept import Kept
from podium_server.batch.question_size import Mark, too_long, too_low

_MOST_RUNS = 200
"""How many recorded runs a forecast uses."""
_FEWEST_RUNS = 5


def check(
    lines: Input, kept: Kept, journal: SqlJournal, run_cost: float | None
) -> Iterator[tuple[Mark, str]]:
    """Yield each finding: its mark, and a text.

    Args:
        lines: the input.
        kept: the lines that earlier commands have finished.
        journal: has the costs of earlier runs.
        run_cost: replaces the cost limit of each run, in USD; `None` keeps the limits of the models.
    """
    lines_of, runs_of = Counter[str](), Counter[str]()
    limits: dict[str, float | None] = {}
    recorded, costs = anyio.run(_recorded, journal, kept)
    if lines.repeated:
        yield "!", lines.repeated_told
    for each in lines:
        is_done = kept.status_of(each) is not None
        line = each if is_done else kept.checked(each)
        if isinstance(line, BadLine):
            yield "✗", f"line {line.number}: {line.error}"
            continue
        name, conductor = line.model.name, line.model.conductor
        lines_of[name] += 1
        if is_done or line.run_id in recorded:
            continue
        runs_of[name] += 1
        limits[name] = limit = run_cost or conductor.limits.cost
        if limit is not None and runs_of[name] == 1 and (told := too_low(conductor, limit)):
            yield "✗", f"no line for the model {name} can be answered: {told}"
        if finding := too_long(line, run_cost):
            yield finding
    for name, count in lines_of.items():
        yield "✓", f"{counted(count, 'line')} for the model {name}"
    total = runs_of.total()
    if done := lines_of.total() - total:
        yield "✓", f"{counted(done, 'line')} already finished: no call is made"
    if None in limits.values():
        yield "✓", "maximum cost: unknown, because the runs have no cost limit (--max-cost)"
    else:
        most = sum(count * (limits[name] or 0.0) for name, count in runs_of.items())
        yield "✓", f"maximum cost: {money(most)}, the sum of the cost limits of {counted(total, 'run')}"
    yield "✓", f"expected cost: {_expected(costs, total)}"


async def _recorded(journal: SqlJournal, kept: Kept) -> tuple[Collection[str], Sequence[float]]:
    """Return the recorded runs that are not run again, and the costs of the latest runs of the journal."""
    rows = await journal.runs(limit=_MOST_RUNS)
    costs = [row.cost for row in rows if row.cost is not None and row.state == "ok"]
    return await done_runs(journal, kept), costs


def _expected(costs: Sequence[float], count: int) -> str:
    """Return the expected cost of some runs, from the costs of recorded runs."""
    if not count:
        return f"{money(0.0)}, because no run is left"
    if len(costs) < _FEWEST_RUNS:
        return f"unknown, because the journal has fewer than {_FEWEST_RUNS} runs of known cost"
    deciles = quantiles(costs, n=10)
    low, high = (max(each, 0.0) * count for each in (deciles[0], deciles[-1]))
    return f"{money(low)} to {money(high)}, if the runs cost as much as the {len(costs)} latest recorded runs"
