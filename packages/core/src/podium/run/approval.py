"""Asks people for approvals and answers, and records what they decide."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypedDict, Unpack

import anyio
import anyio.to_thread

from podium.errors import ConfigError, PlanError, PodiumError, QueryError, WorkerFailed, unknown_options
from podium.execution.context import ConductorSettings, RunContext, RunRequest
from podium.execution.graph import WAITING
from podium.journal.journal import Journal, shortened
from podium.policy import ApprovalRequest
from podium.policy.policy import Ask, Asked
from podium.run.acquire import recorded_request
from podium.run.forecast import forecast_plan
from podium.run.replies import misfit, read_answer, read_arguments
from podium.run.request import checked_plan
from podium.run_state.actions import how_to_continue
from podium.run_state.state import RunState, fold
from podium.secrets import BUGS, Boundary, add_place
from podium.types.events import ActionDecided, ApprovalAsked, ApprovalGiven, Event, RunEnded, RunResumed
from podium.types.messages import storable
from podium.types.outcome import Action, Problem
from podium.types.plan import Plan
from podium.types.steps import Step
from podium.workers.person import PersonWorker

REFUSED = "refused"
"""Problem code: the plan was refused."""
REPLANNED = "planned_again"
"""Problem code: a person asked for another plan."""
UNANSWERED = "unanswered"
"""Problem code: a question got no answer."""
_LEAST_KEY = 8
"""The least length of the beginning of an action's key that names the action."""
_MOST_TOLD = 3
"""The number of steps that wait for an approval and are told."""
_OF_APPROVAL = ("plan", "arguments", "again", "answer")
"""The parts of a decision that only approvals and answers have."""


def how_to_decide(run_id: str, *, asks: bool = False) -> str:
    """Return how a user decides on what a run waits for, or with `asks` answers it, in words."""
    told = f"decide with `podium decide {run_id} approve` (or `refuse`)"
    told = f"answer with `podium decide {run_id} --answer TEXT`" if asks else told
    return f"{told} or `Conductor.decide`, then {how_to_continue(run_id)}"


class Decision(TypedDict, total=False):
    """A person's decision: exactly one of `approved`, `done` (with `action`) and `answer` is given."""

    approved: bool | None
    """Whether the waiting plan or the waiting actions may run."""
    plan: Plan | None
    """The changed plan; by default (`None`) the waiting plan."""
    arguments: str | None
    """What the approved action is to do instead; by default (`None`) what it is asked to do."""
    again: bool
    """Whether, with `approved=False`, the planner writes another plan, and is shown `why`; by default not."""
    action: int | str | None
    """The step of the action, the fan-out or the question, from 0; inside of maps and blocks its name, such
    as `2[17]`. With `done`, also `Action.key`, because two plans may have an action in one step. By default
    (`None`) the plan, all that waits, or the only question."""
    round: int | None
    """The round of an action with `done`, from 1; by default (`None`) the only one with an open end."""
    done: bool | None
    """Whether an action that failed, or whose end is unknown, was carried out. With `False`, the resumed run
    carries it out."""
    answer: str | None
    """The answer to a question (`PersonWorker`); `approved=False` gives none."""
    by: str
    """The person or program that decided; empty by default."""
    why: str
    """The reason; empty by default."""


async def decide(
    journal: Journal, run_id: str, settings: ConductorSettings | None = None, **decision: Unpack[Decision]
) -> None:
    """Record a decision on what a run waits for, as `Conductor.decide` does; the journal is enough for it.

    Args:
        journal: the journal of the run.
        run_id: the run's id.
        settings: the settings of a conductor, which check a changed plan.
        decision: see `Decision`.

    Raises:
        ConfigError: there is a changed plan without `settings`; or see `Conductor.decide`, for all errors.
    """
    given = _given(run_id, **decision)
    if settings is None and decision.get("plan") is not None:
        raise ConfigError("a changed plan is checked by a conductor: use `Conductor.decide`")
    action = decision.get("action")
    step = None if action is None else str(action)
    log = await journal.claim(run_id)
    try:
        state = fold(entry.event for entry in log.entries)
        workers = state.workers  # of a nested run, it is another pool
        if isinstance(given, ActionDecided):
            decisions: Sequence[Event] = [_on_end(given, state, step)]
        else:
            if given.plan is not None and state.started is not None:
                assert settings is not None  # because there is a plan
                request = RunRequest(run_id=run_id, plan=given.plan)
                request = recorded_request(request, state.started, settings)
                given, workers = replace(given, plan=request.plan), settings.pool.names
            checks = settings if settings is not None and settings.pool.names == state.workers else None
            decisions = await _on_waiting(given, state, step, checks)
        at = decisions[0].at
        log.append(RunResumed(run_id=run_id, at=at, workers=workers, recovery=log.recovery))
        for each in decisions:
            log.append(each)
        if (end := _still_waiting(state, decisions)) is not None:
            log.append(end)
        await log.flush()
    finally:
        await log.aclose()


def _given(run_id: str, **decision: Unpack[Decision]) -> ApprovalGiven | ActionDecided:
    """Return a decision as an event, without its step."""
    if told := unknown_options("decide", decision, Decision.__annotations__):
        raise TypeError(told)
    approved, done, answer = decision.get("approved"), decision.get("done"), decision.get("answer")
    if [approved, done, answer].count(None) != 2 or (done is not None and decision.get("action") is None):
        raise ConfigError("decide either `approved`, or `done` together with `action`, or `answer`")
    if decision.get("arguments") is not None and not approved:
        raise ConfigError("`arguments` change an approved action: give `approved=True`, too")
    facts: dict[str, Any] = {"run_id": run_id, "at": 0.0}
    facts |= {name: value for name, value in decision.items() if name in ("by", "why")}
    if done is not None:
        return ActionDecided(**facts, round=decision.get("round") or 0, step=0, done=done)
    facts |= {name: value for name, value in decision.items() if name in _OF_APPROVAL}
    return ApprovalGiven(**facts, round=0, approved=approved is not False)


async def _on_waiting(
    given: ApprovalGiven, state: RunState, step: str | None, settings: ConductorSettings | None
) -> Sequence[ApprovalGiven]:
    """Return the decision for each approval or answer that the run waits for, and that is meant."""
    meant = [asked for asked in state.waiting if step in (None, asked.name, str(asked.step))]
    if given.answer is not None:
        meant = [asked for asked in meant if asked.question is not None]
        if len(meant) > 1:
            steps = ", ".join(asked.name for asked in meant)
            raise ConfigError(f"run {given.run_id} waits for answers to steps {steps}: name one (--action)")
        for asked in meant:
            if asked.is_late:
                told = f"the time to answer step {asked.name} is over"
                raise QueryError(f"{told}: resume the run, which then continues without an answer")
            given = replace(given, answer=await read_answer(asked, given.answer))
    elif given.approved:
        if meant and all(asked.question is not None for asked in meant):
            raise ConfigError(f"step {meant[0].name} asks a question: answer it with --answer TEXT")
        meant = [asked for asked in meant if asked.question is None]
        given = _with_arguments(given, meant if step is not None else (), settings)
    if not meant:
        what = "a decision" if step is None else f"a decision on step {step}"
        raise ConfigError(f"run {given.run_id} does not wait for {what}: see `podium show {given.run_id}`")
    if given.plan is not None and meant[0].step is not None:
        what = " and ".join(sorted({"items" if asked.is_fan_out else "actions" for asked in meant}))
        raise ConfigError(f"run {given.run_id} waits for a decision on {what}: a plan cannot be changed now")
    return [
        replace(given, at=asked.at, round=asked.round, step=asked.step, action=asked.action)
        for asked in meant
    ]


def _with_arguments(
    given: ApprovalGiven, meant: Sequence[ApprovalAsked], settings: ConductorSettings | None
) -> ApprovalGiven:
    """Return an approval with its arguments as they are recorded."""
    if given.arguments is None:
        return given
    if len(meant) != 1:
        raise ConfigError("arguments are those of one action that waits: name its step (--action)")
    return replace(given, arguments=read_arguments(meant[0], given.arguments, settings))


def _still_waiting(state: RunState, decisions: Sequence[Event]) -> RunEnded | None:
    """Return the end of a run that waits for further decisions after these; `None` if it does not."""
    decided = {(each.round, each.step) for each in decisions if isinstance(each, ApprovalGiven)}
    left = [asked for asked in state.waiting if (asked.round, asked.step) not in decided]
    if not (left and decided and isinstance(state.end, RunEnded)):
        return None
    problem = waiting([f"{asked.told}: {asked.asked}" for asked in left])
    return replace(state.end, result=replace(state.end.result, problem=problem))


def waiting(told: Sequence[str]) -> Problem:
    """Return the problem of a run in which steps wait for approval."""
    more = [f"and {len(told) - _MOST_TOLD} more wait"] if len(told) > _MOST_TOLD else []
    return Problem(WAITING, "; ".join([*told[:_MOST_TOLD], *more]))


def _on_end(given: ActionDecided, state: RunState, step: str | None) -> ActionDecided:
    """Return the decision with the place and the key of the action that is meant."""
    action = open_action(state, str(step), given.round)
    return replace(given, at=state.at, round=action.round, step=action.step, action=action.key)


def open_action(state: RunState, step: str, number: int = 0) -> Action:
    """Return the action that a person can decide on: of a step, and of a round if its number is given.

    Args:
        state: the state of the run.
        step: the number or the name of the step; or `Action.key`, or at least 8 characters of its beginning;
            or both, as in `2@7d176a192cd7`.
        number: the number of the round; 0 for any.

    Raises:
        ConfigError: there is none, or there are several.
    """
    of_run = [each.action for each in state.executions() if each.action.run_id == state.run_id]
    named = [each for each in of_run if _is_named(each, step)]
    found = [each for each in named if number in (0, each.round)]
    left = [each for each in found if each.end in ("unknown", "failed")]
    told = f"step {step} of run {state.run_id}"
    if not left:
        is_known = f": its end is {found[-1].end!r}" if found else ""
        told += f" has no action whose end a person can decide{is_known}"
        raise ConfigError(f"{told}: see `podium show {state.run_id}`")
    rounds = sorted({each.round for each in left})
    if len(rounds) > 1:
        told += f" is such an action in the rounds {rounds}"
        raise ConfigError(f"{told}: name the round with --round (or `round=`)")
    if len(keys := {each.key: each for each in left}) > 1:  # of two plans
        actions = ", ".join(f"{shortened(str(each))} (--action {each.short_key})" for each in keys.values())
        raise ConfigError(f"{told} has several such actions, of several plans: name one of {actions}")
    if len(names := {each.name: None for each in left}) > 1:  # named by their key
        raise ConfigError(f"{told} is several equal actions: name one of the steps {', '.join(names)}")
    return left[-1]


def _is_named(action: Action, said: str) -> bool:
    name, has_key, key = said.partition("@")
    is_place = name in (action.name, str(action.step))
    if has_key:
        return is_place and action.key.startswith(key)
    return is_place or (len(said) >= _LEAST_KEY and action.key.startswith(said))


async def request_approval(
    context: RunContext,
    number: int,
    plan: Plan,
    labels: frozenset[str],
    action: Action | None = None,
    kind: Ask = "actions",
) -> ApprovalGiven | Problem | None:
    """Return the approval of a plan or an action, or why it is not approved; `None` if nobody is asked."""
    known, policy = context.paid_results, context.policy
    event = ApprovalAsked(run_id=context.request.run_id, at=context.now(), round=number, plan=plan)
    if action is None:
        what = f"the plan of round {number}"
        waits = f"{what} waits for approval"
        recorded = known.round(number)
        was_asked, decided = recorded.is_asked, recorded.decision
    else:
        is_fan_out = kind == "fan-outs"
        what = f"the {'fan-out' if is_fan_out else 'action'} of step {action.name}"
        who = "" if is_fan_out else f"{action.worker} "
        waits = f"step {action.name} waits for approval: {who}{action.asked}"
        event = replace(event, step=action.step, action=action.key, is_fan_out=is_fan_out)
        event = replace(event, path=action.path, asked=action.asked)
        place = action.round, action.step, action.key
        latest = known.approvals.get(place)
        was_asked, (decided, wrong) = latest is not None, _usable(latest, event, context.settings)
        waits += wrong
    kind = "plans" if action is None else kind
    asks = policy.approvers_of(kind)
    if not plan.steps or not (asks or was_asked or decided is not None):
        return None
    try:
        if decided is None:
            if context.emit is not None:
                context.emit(event)
            if asks:  # without an approver, it keeps waiting
                passed = was_asked and known.has_waited and "later" in asks  # by those before "later"
                decided = await _decide(context, event, labels, action, kind, passed=passed)
            if decided is None:
                return Problem(WAITING, waits)
            decided = replace(decided, at=context.now(), step=event.step, action=event.action)
            if context.emit is not None:
                context.emit(decided)
        if not decided.approved:
            who, why = f" by {decided.by}" if decided.by else "", f": {decided.why}" if decided.why else ""
            told = f"{what} was refused{who}{why}"
            return Problem(REPLANNED, told) if decided.again else Problem(REFUSED, told)
        return replace(decided, plan=decided.plan and _checked(context, decided.plan, plan, labels))
    except PodiumError as error:
        return Problem.of(error)


def _usable(
    known: ApprovalAsked | ApprovalGiven | None, asked: ApprovalAsked, settings: ConductorSettings
) -> tuple[ApprovalGiven | None, str]:
    """Return a recorded decision on a step; `None`, and why, if its unchecked arguments do not fit."""
    if not isinstance(known, ApprovalGiven):
        return None, ""
    wrong = "" if known.arguments is None else misfit(asked, known.arguments, settings)
    return (None, f"; {wrong}") if wrong else (known, "")


async def _decide(
    context: RunContext,
    asked: ApprovalAsked,
    labels: frozenset[str],
    action: Action | None,
    kind: Ask,
    *,
    passed: bool,
) -> ApprovalGiven | None:
    """Ask all approvers in order, each for the plan that the earlier ones approved; `None` means to wait."""
    number, plan = asked.round, asked.plan
    given = partial(ApprovalGiven, run_id=context.request.run_id, at=context.now(), round=number)
    current = plan
    for approve in context.policy.approvers_of(kind):
        if approve == "later":
            if context.request.caller is not None:
                return given(approved=False, why="the approval is 'later', and a nested run cannot wait")
            if current != plan:
                return given(
                    approved=False, why="an approver changed the plan, and 'later' needs the unchanged plan"
                )
            return await _by_host(context, asked, labels)
        if passed:
            continue
        request = ApprovalRequest(
            run_id=context.request.run_id,
            round=number,
            plan=current,
            workers=context.settings.pool.names,
            query=context.request.query,
            labels=labels,
            actions=context.settings.actions_of(current),
            action=action,
            forecast=forecast_plan(
                context.settings,
                current,
                context.request.query or current.query,
                context.request.context,
                context.previous.visible,
            ),
        )
        try:
            verdict = await _ask(approve, request)
        except BUGS as bug:
            add_place(bug, request.run_id, f"`approve` in round {number}")
            raise
        if isinstance(verdict, Plan) and action is not None:
            raise ConfigError("approve returned a plan for an action: return True, False, or a reason")
        if isinstance(verdict, Plan):
            current = _checked(context, verdict, plan, labels)
        elif verdict is not True:
            return given(approved=False, why=storable(verdict or ""))
    return given(approved=True, plan=None if current == plan else current)


async def _by_host(
    context: RunContext, asked: ApprovalAsked, labels: frozenset[str] = frozenset()
) -> ApprovalGiven | None:
    """Return the decision or the answer that the host gets from a person; `None` means to wait."""
    host, problem = context.request.host, ""
    while host is not None and (given := await host.decide(asked, problem)) is not None:
        try:
            if given.plan is not None:
                _checked(context, given.plan, asked.plan, labels)
            answer = None if given.answer is None else await read_answer(asked, given.answer)
            if given.arguments is None:
                return replace(given, answer=answer)
            return replace(given, arguments=read_arguments(asked, given.arguments, context.settings))
        except (PlanError, QueryError) as error:
            problem = str(error)
    return None


async def request_answer(context: RunContext, asked: Action, plan: Plan, step: Step) -> str | Problem:
    """Return the answer to the question of a step, or why there is none."""
    person = context.settings.pool.workers[step.worker]
    assert isinstance(person, PersonWorker)
    given = context.paid_results.approvals.get((asked.round, asked.step, asked.key))
    if not isinstance(given, ApprovalGiven):
        where: dict[str, Any] = {"round": asked.round, "step": asked.step, "action": asked.key}
        question = (given and given.question) or person.question(step)
        facts = {"plan": plan, "path": asked.path, "asked": asked.asked, "question": question, **where}
        context.tell(ApprovalAsked, **facts)
        waits = ApprovalAsked(run_id=asked.run_id, at=0.0, **facts)
        try:
            answered = await _answered(context, person, waits)
        except QueryError as error:
            return Problem("bad_output", str(error))
        if answered is None:
            return Problem(WAITING, f"{waits.told}: {asked.asked}")
        facts = {"approved": "answer" in answered, **answered, **where}
        context.tell(ApprovalGiven, **facts)
        given = ApprovalGiven(run_id=asked.run_id, at=0.0, **facts)
    if given.answer is not None:
        return given.answer
    who, why = f" by {given.by}" if given.by else "", f": {given.why}" if given.why else ""
    return Problem(UNANSWERED, f"the question of step {asked.name} was not answered{who}{why}")


async def _answered(
    context: RunContext, person: PersonWorker, asked: ApprovalAsked
) -> Mapping[str, str] | None:
    """Return the answer within the process or after the deadline, or why there is none; `None` to wait."""
    if not asked.is_late and person.ask is None:
        if context.request.caller is not None:
            return {"why": "a nested run cannot wait for a person"}
        given = await _by_host(context, asked)
        if given is None:
            return None
        return {"by": given.by, "why": given.why} | ({} if given.answer is None else {"answer": given.answer})
    if not asked.is_late and person.ask is not None:
        with anyio.move_on_after(asked.left):
            with Boundary(f"worker {person.card.name!r}", WorkerFailed):
                said = await person.ask(asked)
            return {"answer": await read_answer(asked, said), "by": person.by}
    why = f"nobody answered within {person.deadline:g} s" if person.deadline else "nobody answered in time"
    return {"why": why} | (
        {} if person.otherwise is None else {"answer": await read_answer(asked, person.otherwise)}
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
        told = "True, False, a text with the reason for a rejection, or a plan"
        raise ConfigError(f"approve returned {verdict!r:.80}: return {told}")
    return verdict


def _checked(context: RunContext, changed: Plan, plan: Plan, labels: frozenset[str]) -> Plan:
    """Return a changed plan, with the query of the original plan."""
    settings, previous = context.settings, context.previous
    changed = checked_plan(changed, settings, context.request, previous=bool(previous.visible))
    context.policy.verify(changed, settings.pool.cards, labels, previous.labels)
    return replace(changed, query=plan.query)
