"""Replays recorded runs, unchanged or with a changed plan, and compares two runs.

A replay is a run of its own. It finds the recorded results in its `PaidResults`, so only
steps with a changed input are called.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from podium.conductor import Conductor
from podium.errors import PlanInvalid
from podium.resume.reuse import unbilled
from podium.types.events import Event, RunStarted
from podium.types.messages import Query
from podium.types.outcome import Outcome, Round
from podium.types.plan import Plan, PlannedBy
from podium.types.result import Result


async def replay(
    conductor: Conductor,
    events: Sequence[Event],
    *,
    plan: Plan | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Result:
    """Do a recorded run over.

    Args:
        conductor: who directs it; its pool has the workers that the recorded plans name.
        events: what was recorded of the run.
        plan: takes the place of the last round's plan, its workers numbered as the pool is
            now. Only steps that are given something else than they were, and all that see
            them, are called. `None` leaves it as it was: nothing is called for what was
            recorded.
        on_event: takes what happens; `None` where nobody listens.

    Returns:
        What the replay came to. What was taken from the record costs nothing here.

    Raises:
        ConfigError: the pool lacks a worker that a recorded plan names.
        PlanInvalid: the plan does not fit the pool or the limits, or the run never had one to change.
        PodiumError: as `Conductor.run`.
    """
    started = events[0]
    assert isinstance(started, RunStarted)
    paid_results = unbilled(events, conductor.pool.names)
    asked: Query | Plan = started.query
    if plan is not None:
        if not paid_results.plans:
            raise PlanInvalid("nothing_to_keep", "the run has no plan that could be changed")
        last = max(paid_results.plans)
        plan.fit(len(conductor.pool), conductor.limits.plan_steps, previous=last > 1)
        by = plan.planner or PlannedBy("user", "the plan was changed")
        before = paid_results.plans[last]
        paid_results.plans[last] = replace(
            before, plan=plan, planner=by.name, why=by.why, is_fallback=by.is_fallback
        )
        paid_results.decisions.pop(last, None)
    if 1 in paid_results.plans and (
        paid_results.plans[1].planner == "user" or not paid_results.proposals.get(1)
    ):
        asked = replace(paid_results.plans.pop(1).plan, query=started.query)
    return await conductor.run(
        asked,
        context=started.context,
        labels=started.labels,
        paid_results=paid_results,
        on_event=on_event,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing in which two runs differ."""

    what: str
    """The fact of a run (`status`, `answer`, `cost`, `tokens`, `rounds`), or of a step
    (`worker`, `subtask`, `access`, `status`, `output`, `cost`, `tokens`)."""
    before: object
    """As it is in the first run, as plain JSON data; `None` where there is no such thing."""
    after: object
    """As it is in the second."""
    round: int | None = None
    """Round and step it is of; `None` for the run as a whole."""
    step: int | None = None


def diff(first: Result, second: Result) -> tuple[Difference, ...]:
    """Return in what two runs differ: plans, outputs, costs. Times, which always do, are left out."""
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
    for outcome in current.outcomes:  # those of superseded steps come last
        outcomes.setdefault(outcome.step, outcome)
    facts = []
    for index, step in enumerate(current.plan.steps):
        came_to = outcomes.get(index)
        told: dict[str, object] = {
            "worker": result.workers[step.worker],
            "subtask": step.subtask,
            "access": step.access_list,
        }
        if came_to is not None:
            told |= {
                "status": came_to.status,
                "output": came_to.text,
                "cost": came_to.cost,
                "tokens": came_to.usage.total_tokens,
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
