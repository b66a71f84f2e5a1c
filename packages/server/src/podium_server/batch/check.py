"""Checks the lines of a batch before any run, also by their sizes."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import quantiles
from typing import Literal

import anyio

from podium.budget import Limits, Spend
from podium.cli.screen import counted, money
from podium.conductor import Conductor
from podium.journal import SqlJournal
from podium.planners import PlanRequest
from podium.types import Message, Sampling
from podium.workers import Request, Worker
from podium_server.batch.input import BadLine, Input, Line
from podium_server.batch.kept import Kept, done_runs

Mark = Literal["✓", "!", "✗"]
"""Whether a finding is good, a warning, or an error."""
_SHORT = (Message("user", "?"),)
"""If a call does not fit the limits with this question either, the line is not the reason."""
_LEAST = 64
"""Tokens of the shortest answer that a run reserves."""
_LIMITED = ("cost", "input_tokens", "output_tokens")


def too_long(line: Line, run_cost: float | None) -> tuple[Mark, str] | None:
    """Return what is known to exceed the limits of the run; `None` if nothing is.

    It is an error if no worker of the model can be called with the question. It is a warning if the planner
    cannot be called, because a simple question and a fallback planner need no such call, or if some workers
    cannot. The prompts of calls have more text than the question, so a run may exceed its limits without a
    finding.
    """
    conductor = line.model.conductor
    limits = conductor.limits if run_cost is None else replace(conductor.limits, cost=run_cost)
    messages = tuple(line.request.conversation_for(line.model))
    calls = {}
    if conductor.show_question:
        calls = {f"a call of {each.card.name}": partial(_of_worker, each, limits) for each in conductor.pool}
    mark: Mark = "✗" if calls and all(call(messages) for call in calls.values()) else "!"
    if line.given.get("plan") is None:
        calls["planning"] = partial(_of_planner, conductor, limits)
    over = {name: call(messages) for name, call in calls.items() if not call(_SHORT)}
    told = "; ".join(f"{name} {excess}" for name, excess in over.items() if excess)
    if not told:
        return None
    length = sum(len(each.text) for each in messages)
    return mark, f"line {line.number}: the question has {length:,} characters: {told}"


def too_low(conductor: Conductor, run_cost: float) -> str:
    """Return why a cost limit allows no run of a conductor, in words; empty if it may allow one.

    No run is possible if the limit is less than a short question and a short answer of each worker cost.
    """
    limits, short = replace(conductor.limits, cost=run_cost), Sampling(max_tokens=_LEAST)
    request = Request(messages=_SHORT, sampling=short)
    excesses = [_excess(each.worst_case(request, _LEAST), limits) for each in conductor.pool]
    return "" if not all(excesses) else f"each call of a worker {excesses[0]}"


def _of_worker(worker: Worker, limits: Limits, messages: tuple[Message, ...]) -> str:
    """Return how a call of a worker exceeds the limits; empty if it does not."""
    return _excess(worker.worst_case(Request(messages=messages), limits.answer_tokens), limits)


def _of_planner(conductor: Conductor, limits: Limits, messages: tuple[Message, ...]) -> str:
    """Return how the call of the planner exceeds the limits; empty if it does not."""
    request = PlanRequest(query=messages, cards=conductor.pool.cards, max_steps=limits.plan_steps)
    return _excess(conductor.planner.worst_case(request, limits.answer_tokens), limits)


def _excess(worst: Spend | None, limits: Limits) -> str:
    """Return which limit of the run a call may exceed; empty if none."""
    if worst is None:  # a nested conductor reserves its own calls
        return ""
    for name in _LIMITED:
        need, most = getattr(worst, name), getattr(limits, name)
        if need is not None and most is not None and need > most:
            if name == "cost":
                return f"may cost {money(need)}, and the limit of a run is {money(most)}"
            return f"may need {need:,} of {name}, and the limit of a run is {most:,}"
    return ""


_MOST_RUNS = 200
"""How many recorded runs a forecast uses."""
_FEWEST_RUNS = 5


def check(
    lines: Input, kept: Kept, journal: SqlJournal, run_cost: float | None
) -> Iterator[tuple[Mark, str]]:
    """Yield each finding: its mark, and a text."""
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
