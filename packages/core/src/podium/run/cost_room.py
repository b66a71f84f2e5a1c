"""Warns of cost limits that leave no room for a lost call."""

from collections.abc import Sequence

from podium.budget.limits import Limits
from podium.planners.planner import Planner, PlanRequest
from podium.types.messages import Message, read_query
from podium.workers.worker import Request, Worker

_QUESTION = "What is 2 + 2, and who first wrote it down?"


def tight_cost(planner: Planner, workers: Sequence[Worker], limits: Limits, cost: float) -> str | None:
    """Return a warning if a run with a cost limit can hardly be resumed after a call was lost; else `None`.

    A call whose end is unknown counts with its reservation. So the limit must have room for two of the
    largest reservations: for the lost call, and for the call that repeats it.

    Args:
        planner: the planner.
        workers: the workers of the pool.
        limits: the limits of a run.
        cost: the cost limit of a run, in USD.
    """
    query, most = read_query(_QUESTION), limits.answer_tokens
    cards = tuple(worker.card for worker in workers)
    asked = PlanRequest(query=query, cards=cards, max_steps=limits.plan_steps)
    calls = [("planner", planner.name, planner.worst_case(asked, most))]
    request = Request(messages=(Message("user", _QUESTION),))
    calls += [
        ("worker", worker.card.name, worst)
        for worker in workers
        if (worst := worker.worst_case(request, most)) is not None
    ]
    role, name, worst = max(calls, key=lambda call: call[2].cost or 0.0)
    reserved = worst.cost or 0.0
    if cost >= 2 * reserved:
        return None
    return (
        f"a run may cost ${cost:g}, and one call of the {role} {name!r} reserves ${reserved:.3g} or more: "
        "a call that was lost counts with its reservation, so the run may not be resumed. Raise the limit to "
        f"more than ${2 * reserved:.3g}, or set a lower `sampling = {{ max_tokens = … }}` of the {role}"
    )
