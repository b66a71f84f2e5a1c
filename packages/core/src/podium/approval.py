"""A look at a plan before it is carried out, by whoever must approve it.

It takes a round's plan and returns the plan to carry out, or why there is none. It knows
nothing of what planned it, nor of what carries it out.
"""

from dataclasses import replace
from functools import partial
from inspect import isawaitable, iscoroutinefunction

import anyio.to_thread

from podium.boundary import Boundary
from podium.errors import ConfigError, PodiumError
from podium.events import ApprovalAsked, ApprovalGiven
from podium.forecast import Forecast
from podium.forecasting import forecast
from podium.messages import storable
from podium.outcome import Problem
from podium.plan import Plan
from podium.policy import ApprovalRequest, Asked
from podium.setting import Setting

REFUSED = "refused"
"""Code of the problem that somebody refused the plan."""
PAUSED = "paused"
"""Code of the problem that whoever starts the steps put it off: the run waits for being resumed."""
WAITING = "waiting"
"""Code of the problem that nobody has looked at the plan yet: the run waits for it."""


async def look(setting: Setting, number: int, plan: Plan, labels: frozenset[str]) -> Plan | Problem:
    """Return the plan to carry out, as it is or as it was changed; else why there is none.

    What was decided before stands and is not asked for again. A changed plan must fit
    the pool, the limits and the policy as any other.

    Args:
        setting: the run's.
        number: the round's.
        plan: the round's; one without steps keeps the previous answer and is let pass.
        labels: those every step is shown.
    """
    decided = None if setting.recall is None else setting.recall.decisions.get(number)
    asked = setting.recall is not None and number in setting.recall.asked
    if not plan.steps or (decided is None and not asked and not setting.policy.asks):
        return plan
    try:
        if decided is None:
            setting.tell(ApprovalAsked, round=number, plan=plan)
            if setting.policy.asks:  # else nobody here may wave through what was to be asked
                decided = await _decide(setting, number, plan, labels)
            if decided is None:
                return Problem(WAITING, f"the plan of round {number} waits for being approved")
            facts = {"approved": decided.approved, "plan": decided.plan, "why": decided.why}
            setting.tell(ApprovalGiven, round=number, **facts)
        if not decided.approved:
            who, why = f" by {decided.by}" if decided.by else "", f": {decided.why}" if decided.why else ""
            return Problem(REFUSED, f"the plan of round {number} was refused{who}{why}")
        return plan if decided.plan is None else _checked(setting, decided.plan, plan, labels)
    except PodiumError as error:
        return Problem.of(error)


async def _decide(setting: Setting, number: int, plan: Plan, labels: frozenset[str]) -> ApprovalGiven | None:
    """Ask everybody in turn, each for the plan as those before approved it; `None` means to wait."""
    given = partial(ApprovalGiven, run_id=setting.run_id, at=setting.now(), round=number)
    current = plan
    for approve in setting.policy.approvers:
        if approve == "later":
            if setting.depth:
                return given(approved=False, why="it has to wait, and a run nested in another cannot")
            if current != plan:
                return given(
                    approved=False, why="it was changed, and has to be approved unchanged out of band"
                )
            return None
        request = ApprovalRequest(
            run_id=setting.run_id,
            round=number,
            plan=current,
            workers=setting.pool.names,
            query=setting.query,
            labels=labels,
            forecast=_forecast(setting, current),
        )
        verdict = await _ask(approve, request)
        if isinstance(verdict, Plan):
            current = _checked(setting, verdict, plan, labels)
        elif verdict is not True:
            return given(approved=False, why=storable(verdict or ""))
    return given(approved=True, plan=None if current == plan else current)


def _forecast(setting: Setting, plan: Plan) -> Forecast:
    return forecast(
        plan,
        setting.pool,
        setting.limits,
        query=setting.query,
        attempts=setting.retry.attempts,
        show_question=setting.show_question,
    )


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


def _checked(setting: Setting, changed: Plan, plan: Plan, labels: frozenset[str]) -> Plan:
    """Return a changed plan, which is for the same question.

    Raises:
        PlanError: it cannot be carried out, or the policy forbids it.
    """
    changed.fit(len(setting.pool), setting.limits.plan_steps)
    setting.policy.verify(changed, setting.pool.cards, labels)
    return replace(changed, query=plan.query)
