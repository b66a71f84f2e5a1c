"""A look at a plan before it is carried out, by whoever must approve it.

It takes a round's plan and returns the plan to carry out, or why there is none. It knows
nothing of what planned it, nor of what carries it out.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from inspect import isawaitable, iscoroutinefunction

import anyio.to_thread

from podium.errors import ConfigError, PodiumError
from podium.execution.run_context import RunContext
from podium.journal.journal import Journal
from podium.policy import ApprovalRequest, Asked
from podium.resume.rebuild import waiting_for
from podium.run.forecaster import forecast_plan
from podium.secrets.boundary import BUGS, Boundary, add_place
from podium.types.events import ApprovalAsked, ApprovalGiven, RunResumed, RunStarted
from podium.types.messages import storable
from podium.types.outcome import Problem
from podium.types.plan import Plan

Check = Callable[[Plan, frozenset[str]], None]
"""Raises where a plan may not be carried out for a query of these labels."""
REFUSED = "refused"
"""Code of the problem that somebody refused the plan."""
PAUSED = "paused"
"""Code of the problem that whoever starts the steps put it off: the run waits for being resumed."""
WAITING = "waiting"
"""Code of the problem that nobody has looked at the plan yet: the run waits for it."""


async def decide(journal: Journal, given: ApprovalGiven, workers: Sequence[str], check: Check) -> None:
    """Record what someone says of the plan of a run that waits for it.

    Args:
        journal: where it waits.
        given: what they say.
        workers: the names of the pool's workers.
        check: refuses a changed plan, given the labels of the run's query.

    Raises:
        ConfigError: the run waits for nothing.
        PlanForbidden: the policy does not allow the changed plan.
        JournalError: it cannot be taken up, or the decision cannot be recorded.
    """
    log = await journal.claim(given.run_id)
    try:
        asked = waiting_for([entry.event for entry in log.entries])
        if asked is None:
            told = f"run {given.run_id} waits for no decision: look at it with `podium show {given.run_id}`"
            raise ConfigError(told)
        if given.plan is not None:
            first = next(e.event for e in log.entries if isinstance(e.event, RunStarted))
            check(given.plan, first.labels)
        at, run_id = asked.at, given.run_id
        log.append(RunResumed(run_id=run_id, at=at, workers=tuple(workers), recovery=log.recovery))
        log.append(replace(given, at=at, round=asked.round))
        await log.flush()
    finally:
        await log.aclose()


async def request_approval(
    context: RunContext, number: int, plan: Plan, labels: frozenset[str]
) -> Plan | Problem:
    """Return the plan to carry out, as it is or as it was changed; else why there is none.

    What was decided before stands and is not asked for again. A changed plan must fit
    the pool, the limits and the policy as any other.

    Args:
        context: the run's.
        number: the round's.
        plan: the round's; one without steps keeps the previous answer and is let pass.
        labels: those every step is shown.
    """
    decided = None if context.paid_results is None else context.paid_results.decisions.get(number)
    asked = context.paid_results is not None and number in context.paid_results.asked
    if not plan.steps or (decided is None and not asked and not context.policy.asks):
        return plan
    try:
        if decided is None:
            context.tell(ApprovalAsked, round=number, plan=plan)
            if context.policy.asks:  # else nobody here may wave through what was to be asked
                decided = await _decide(context, number, plan, labels)
            if decided is None:
                return Problem(WAITING, f"the plan of round {number} waits for being approved")
            facts = {"approved": decided.approved, "plan": decided.plan, "why": decided.why}
            context.tell(ApprovalGiven, round=number, **facts)
        if not decided.approved:
            who, why = f" by {decided.by}" if decided.by else "", f": {decided.why}" if decided.why else ""
            return Problem(REFUSED, f"the plan of round {number} was refused{who}{why}")
        return plan if decided.plan is None else _checked(context, decided.plan, plan, labels)
    except PodiumError as error:
        return Problem.of(error)


async def _decide(
    context: RunContext, number: int, plan: Plan, labels: frozenset[str]
) -> ApprovalGiven | None:
    """Ask everybody in turn, each for the plan as those before approved it; `None` means to wait."""
    given = partial(ApprovalGiven, run_id=context.request.run_id, at=context.now(), round=number)
    current = plan
    for approve in context.policy.approvers:
        if approve == "later":
            if context.request.caller is not None:
                return given(approved=False, why="it has to wait, and a run nested in another cannot")
            if current != plan:
                return given(
                    approved=False, why="it was changed, and has to be approved unchanged out of band"
                )
            return None
        request = ApprovalRequest(
            run_id=context.request.run_id,
            round=number,
            plan=current,
            workers=context.settings.pool.names,
            query=context.request.query,
            labels=labels,
            forecast=forecast_plan(
                context.settings,
                current,
                context.request.query,
                context.previous.visible,
                context.request.context,
            ),
        )
        try:
            verdict = await _ask(approve, request)
        except BUGS as bug:
            add_place(bug, request.run_id, f"`approve` in round {number}")
            raise
        if isinstance(verdict, Plan):
            current = _checked(context, verdict, plan, labels)
        elif verdict is not True:
            return given(approved=False, why=storable(verdict or ""))
    return given(approved=True, plan=None if current == plan else current)


async def _ask(approve: Asked, request: ApprovalRequest) -> bool | str | Plan:
    with Boundary("approve", ConfigError):
        if iscoroutinefunction(approve):
            verdict: object = await approve(request)
        else:
            verdict = await anyio.to_thread.run_sync(approve, request, abandon_on_cancel=True)
        if isawaitable(verdict):
            verdict = await verdict
    if not isinstance(verdict, bool | str | Plan):
        told = "True, False, a text that says why it is refused, or a plan"
        raise ConfigError(f"approve returned {verdict!r:.80}: return {told}")
    return verdict


def _checked(context: RunContext, changed: Plan, plan: Plan, labels: frozenset[str]) -> Plan:
    """Return a changed plan, which is for the same question.

    Raises:
        PlanError: it cannot be carried out, or the policy forbids it.
    """
    settings, previous = context.settings, context.previous
    changed.fit(len(settings.pool), settings.limits.plan_steps, previous=bool(previous.visible))
    context.policy.verify(changed, settings.pool.cards, labels, previous.labels)
    return replace(changed, query=plan.query)
