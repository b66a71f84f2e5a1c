"""Replays recorded runs, unchanged or with a changed plan, and compares two runs.

A replay is a new run that reuses the recorded results. Only steps whose input changed are called.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from podium.conductor import Conductor
from podium.errors import ConfigError, PlanInvalid
from podium.run.request import RunOptions
from podium.run_state.paid import PaidResults, unbilled
from podium.types.events import Event, RunStarted
from podium.types.executions import executions_of
from podium.types.messages import Query
from podium.types.outcome import Outcome, Round, total_cost
from podium.types.plan import Plan
from podium.types.result import Result
from podium.types.steps import task_of, worker_of


async def replay(
    conductor: Conductor,
    events: Sequence[Event],
    *,
    plan: Plan | None = None,
    again: tuple[int, int] | None = None,
    on_event: Callable[[Event], None] | None = None,
    **options: Unpack[RunOptions],
) -> Result:
    """Run a recorded run again.

    Args:
        conductor: executes the replay; its pool must have the workers of the recorded plans.
        events: the recorded events of the run.
        plan: replaces the last round's plan, with the worker numbers of the current pool. The replay calls
            the steps whose input changed, and all steps that depend on them. `None` keeps the recorded plan
            and reuses all recorded results.
        again: the round and the step from which the run is repeated: this step, all steps that depend on it,
            and later rounds are called again, without the cache. Actions that were carried out are reused.
        on_event: called with each event; `None` means no callback.
        options: further options of the new run, such as `run_id`, except its texts and paid results.

    Returns:
        The result of the replay. Reused results cost nothing.

    Raises:
        ConfigError: the pool lacks a worker of a recorded plan, or the run has no step `again`.
        PlanInvalid: the plan does not fit the pool or the limits, or the run has no plan to replace.
        PodiumError: see `Conductor.run`.
    """
    started = events[0]
    assert isinstance(started, RunStarted)
    paid_results = unbilled(events, conductor.pool.names)
    asked: Query | Plan = started.query
    if plan is not None:
        last = paid_results.latest
        if not last:
            raise PlanInvalid("nothing_to_keep", "the run has no plan to change")
        plan.fit(len(conductor.pool), conductor.limits.plan_steps, previous=last > 1)
        paid_results.set_plan(last, plan)
    if again is not None:
        _forget(paid_results, *again)
        options["uses_cache"] = False
    first = paid_results.round(1)
    if first.ready is not None and (first.ready.planner == "user" or not first.planned):
        asked = replace(first.ready.plan, query=started.query)
        first.ready = None
    given: RunOptions = {
        **options,
        "context": started.context,
        "labels": started.labels | frozenset(options.get("labels", ())),
        "paid_results": paid_results,
    }
    return await conductor.run(asked, on_event=on_event, **given)


def _forget(paid_results: PaidResults, number: int, step: int) -> None:
    """Remove what is recorded of a step and of all that came of it."""
    ready = paid_results.round(number).ready
    if ready is None or not 0 <= step < len(ready.plan.steps):
        raise ConfigError(f"the plan of round {number} has no step {step}: name a step of the recorded plan")
    plan = ready.plan
    paid_results.forget(number, [each for each in range(len(plan.steps)) if step in plan.reaching(each)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between two runs."""

    what: str
    """The property of a run (`status`, `answer`, `cost`, `tokens`, `rounds`), or of a step
    (`worker`, `subtask`, `access`, `status`, `executions`, `output`, `cost`, `tokens`). `executions` is the
    number of items or turns, in words; `cost` and `tokens` include theirs."""
    before: object
    """The value in the first run, as plain JSON data; `None` when it is missing."""
    after: object
    """The value in the second run, in the same form."""
    round: int | None = None
    """Number of the round, from 1; `None` for the run as a whole."""
    step: int | None = None
    """Index of the step, from 0; `None` for the run as a whole."""


def diff(first: Result, second: Result) -> tuple[Difference, ...]:
    """Return the differences between two runs: plans, outputs, costs, but not times."""
    rounds = [{current.number: current for current in result.rounds} for result in (first, second)]
    found = list(_differences(_run_facts(first), _run_facts(second)))
    for number in sorted({*rounds[0], *rounds[1]}):
        one = _steps_of(rounds[0].get(number), first)
        other = _steps_of(rounds[1].get(number), second)
        for step in range(max(len(one), len(other))):
            before = one[step] if step < len(one) else {}
            after = other[step] if step < len(other) else {}
            found += _differences(before, after, number, step)
    return tuple(found)


def _run_facts(result: Result) -> dict[str, object]:
    return {
        "status": result.status,
        "answer": result.answer,
        "cost": result.cost,
        "tokens": result.usage.total_tokens,
        "rounds": len(result.rounds),
    }


def _steps_of(current: Round | None, result: Result) -> list[dict[str, object]]:
    """Return the facts of each step of a round's plan."""
    if current is None or current.plan is None:
        return []
    outcomes: dict[int, Outcome] = {}
    inside = executions_of(current.outcomes)
    for outcome in current.outcomes:  # the outcomes of superseded steps are at the end
        outcomes.setdefault(outcome.step, outcome)
    facts = []
    for index, step in enumerate(current.plan.steps):
        came_to = outcomes.get(index)
        told: dict[str, object] = {
            "worker": worker_of(step, result.workers),
            "subtask": task_of(step),
            "access": step.access_list,
        }
        if came_to is not None:
            told |= {
                "status": came_to.status,
                "output": came_to.text,
                "cost": came_to.cost,
                "tokens": came_to.usage.total_tokens,
            }
        if came_to is not None and (own := inside.get(index)) is not None:
            told |= {
                "executions": own.told(step),
                "cost": total_cost([came_to.cost, own.cost]),
                "tokens": came_to.usage.total_tokens + own.tokens,
            }
        facts.append(told)
    return facts


def _differences(
    before: dict[str, object], after: dict[str, object], number: int | None = None, step: int | None = None
) -> Iterator[Difference]:
    for what in {**before, **after}:
        one, other = before.get(what), after.get(what)
        if one != other:
            yield Difference(what=what, before=one, after=other, round=number, step=step)
