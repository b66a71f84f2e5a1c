"""Finds questions that are too long for the limits of a run, before a call is paid for."""

from dataclasses import replace
from functools import partial
from typing import Literal

from podium.budget import Limits, Spend
from podium.cli.screen import money
from podium.conductor import Conductor
from podium.planners import PlanRequest
from podium.types import Message, Sampling
from podium.workers import Request, Worker
from podium_server.batch.input import Line

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

    Args:
        line: the line.
        run_cost: replaces the cost limit of the run, in USD; `None` keeps the limits of the model.
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
