"""The results of a recorded run that are paid for, which a resumed run reuses.

The calls of the caller's tools and their results are divided among the steps that made the calls.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf
from typing import Any

from podium.run_state.actions import Execution, unpaid, without_cost
from podium.run_state.round_state import UNKNOWN, RoundState, is_aside
from podium.run_state.state import RunState, fold, for_pool
from podium.secrets import scrub
from podium.types.events import (
    ApprovalAsked,
    ApprovalGiven,
    Event,
    PlanReady,
    RunEnded,
    RunStarted,
    StepEnded,
)
from podium.types.messages import INSTRUCTING, Message, Part
from podium.types.outcome import INCOMPLETE, Call, Outcome, Proposal
from podium.types.plan import KEPT, Plan, PlannedBy
from podium.usage import Usage
from podium.workers.worker import StepInput


def divided(
    messages: Iterable[Message], called: Collection[str]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the messages of the tool calls with the ids `called` and of their results, and the others.

    A message with calls of both kinds is divided.
    """
    own, others = list[Message](), list[Message]()
    for message in messages:
        if message.role == "tool":
            (own if message.tool_call_id in called else others).append(message)
            continue
        known = tuple(call for call in message.tool_calls if _id(call) in called)
        if known:
            own.append(replace(message, tool_calls=known))
        if left := tuple(call for call in message.tool_calls if _id(call) not in called):
            others.append(replace(message, tool_calls=left))
        elif not known:
            others.append(message)
    return tuple(own), tuple(others)


class Exchange:
    """The calls of the caller's tools in a conversation, and their results.

    Args:
        messages: the messages after the question.
        called: the ids of the calls that steps of the plan have made.
        before: the messages up to the question, whose calls have ids, too.
    """

    def __init__(
        self, messages: Sequence[Message] = (), called: Collection[str] = (), before: Sequence[Message] = ()
    ) -> None:
        others = divided(messages, called)[1]
        self.others = others if any(each.role == "tool" for each in others) else ()
        """The messages of the calls of which it is not known which step made them. The last step is shown
        them; they are from a plan that was lost."""
        self._calls = {_id(call): call for each in messages for call in each.tool_calls}
        """The calls as the caller tells them: a model's arguments may be no JSON, which servers refuse."""
        self._results: dict[str, Message] = {}
        self._notes: dict[str, list[Message]] = {}
        """By call: the instructions that follow its result."""
        self._ids = {*called, *(_id(call) for each in (*before, *messages) for call in each.tool_calls)}
        latest = list[str]()
        is_open = False
        for message in messages:
            if message.role == "tool":
                name = str(message.tool_call_id)
                latest = [*latest, name] if is_open else [name]
                self._results[name] = message
            elif message.role in INSTRUCTING:
                for name in latest:
                    self._notes.setdefault(name, []).append(message)
            is_open = message.role == "tool"

    def is_answered(self, calls: Iterable[Part]) -> bool:
        """Return whether the results of all calls are known."""
        return all(_id(call) in self._results for call in calls)

    def open(self, calls: Iterable[Part]) -> tuple[Part, ...]:
        """Return the calls without a result."""
        return tuple(call for call in calls if _id(call) not in self._results)

    def own(self, said: Iterable[Message]) -> tuple[Message, ...]:
        """Return the messages of a step: each message with calls, their results, and what follows these."""
        found = list[Message]()
        for message in said:
            names = [_id(call) for call in message.tool_calls]
            calls = tuple(self._calls.get(_id(call), call) for call in message.tool_calls)
            found += [
                replace(message, tool_calls=calls),
                *(self._results.get(name) or _gone(name) for name in names),
            ]
            notes = list[Message]()
            for note in (each for name in names for each in self._notes.get(name, ())):
                notes += [] if note in notes else [note]  # several calls may have the same
            found += notes
        return tuple(found)

    def labels(self, said: Iterable[Message]) -> frozenset[str]:
        """Return the labels that the caller has given to the results of a step's calls."""
        return frozenset[str]().union(*(each.labels or () for each in self.own(said)))

    def unique(self, calls: Iterable[Part], place: str, *, always: bool = False) -> tuple[Part, ...]:
        """Return calls with other ids where another call has the same, or always.

        Args:
            calls: the calls.
            place: names who made them.
            always: whether each call gets another id.
        """
        found = list[Part]()
        for number, call in enumerate(calls):
            name = _id(call)
            if always or not name or name in self._ids:
                name = sha256(f"{place}/{number}".encode()).hexdigest()[:_CHARS]
            self._ids.add(name)
            found.append(call if name == _id(call) else {**call, "id": name})
        return tuple(found)


_CHARS = 9
"""Length of new ids: Mistral accepts no other."""


def _id(call: Part) -> str:
    return str(call.get("id") or "")


def _gone(name: str) -> Message:
    return Message("tool", "(The result of this call is not in the conversation any more.)", (), name)


_KEYS = {"round": "previous"}


def step_key(
    worker: str,
    step_input: StepInput,
    tool_messages: Sequence[Message] = (),
    *,
    returns: Mapping[str, Any] | None = None,
    exact: bool = False,
) -> str:
    """Return the hash of a step's worker, of all that the worker sees, and of the type of its output.

    The index of the step in its plan does not matter.
    """
    seen = [
        [
            shown.subtask,
            shown.output,
            shown.gap,
            *([_KEYS.get(shown.where, shown.where)] if shown.where else []),
        ]
        for shown in step_input.visible
    ]
    told: list[object] = [
        worker,
        step_input.subtask,
        seen,
        [message.to_wire() for message in step_input.query],
    ]
    if tool_messages:
        told.append([message.to_wire() for message in tool_messages])
    if step_input.texts:
        told.append(["texts", *step_input.texts])
    if returns is not None:
        told.append(["returns", returns])
    text = json.dumps(told, sort_keys=True)
    return sha256((text if exact else scrub(text)).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class PaidResults:
    """Recorded outcomes, plans and decisions."""

    run_id: str | None = None
    """The id of the run that recorded the results, if it is another run."""
    rounds: dict[int, RoundState] = field(default_factory=dict)
    """The rounds, by number; their plans have the worker numbers of the current pool."""
    stand_ins: set[int] = field(default_factory=set)
    """Numbers of the rounds whose planner is asked again, because the fallback planner wrote the plan. If
    there is still no other plan, this plan is used again."""
    lost: dict[tuple[int, int], list[Call]] = field(default_factory=dict)
    """By round and step: calls that failed, or whose end was not recorded."""
    actions: list[Execution] = field(default_factory=list)
    """The recorded actions of the run and its nested runs."""
    approvals: dict[tuple[int, int, str], ApprovalGiven | ApprovalAsked] = field(default_factory=dict)
    """The latest decision on each action that needed an approval, and the answer to each question, by round,
    step and `Action.key`; what was asked first if nobody has decided."""
    has_waited: bool = False
    """Whether the run ended because it waits for a decision."""
    moved: dict[tuple[int, int], str] = field(default_factory=dict)
    """By round and step: the key of the outcome, if it was recorded for another conversation."""
    attempts: dict[tuple[int, int], int] = field(default_factory=dict)
    """By round and step: the highest number of a call, also for an earlier plan of the round."""
    charged: set[tuple[int, int, int]] = field(default_factory=set)
    """Round, step and attempt of every recorded call, which the ledger has already counted."""
    caps: dict[tuple[int, int], int] = field(default_factory=dict)
    """By round and step: the tokens of the longest answer that was allowed, if the answer was cut."""
    allows_more: bool = False
    """Whether the run has higher limits now, so that a cut answer is asked for again."""
    nested: dict[tuple[int, int], Sequence[Event]] = field(default_factory=dict)
    """By round and step: the events of the nested run that waits for results of the caller's tools."""
    before: "PaidResults | None" = None
    """The results of the run that this run continues after calls of the caller's tools."""
    gaps: dict[tuple[int, int], list[Outcome]] = field(default_factory=dict)
    """By round and step: the incomplete outputs of maps and loops, from which other results may be made."""
    _outcomes: dict[str, list[tuple[int, Outcome]]] = field(default_factory=dict)
    """Outcomes by `step_key`, each with its number in the order of `add`."""
    _added: int = 0
    _shown: dict[tuple[int, int], list[tuple[int, ...]]] = field(default_factory=dict)
    """By round and step: the steps whose output its worker saw, of `ok` outcomes that did not see all."""

    def add(self, key: str, outcome: Outcome) -> None:
        """Add an outcome; outcomes of a run are added in the order in which its steps ended.

        An outcome replaces an earlier one of its step with the same key: an answer that was cut. An answer is
        for one step: an outcome also replaces the one from which it was taken, of another step of its round.
        """
        self._added += 1
        known, place = self._outcomes.setdefault(key, []), (outcome.round, outcome.step)
        if outcome.status == "ok":
            known[:] = [each for each in known if (each[1].round, each[1].step) != place]
        if outcome.reused and not outcome.attempts:
            alike = [each for each in known if (each[1].round, each[1].text) == (place[0], outcome.text)]
            known[:] = [each for each in known if each not in alike[:1]]
        known.append((self._added, outcome))
        if outcome.status == "ok" and outcome.shown is not None:
            self._shown.setdefault((outcome.round, outcome.step), []).append(outcome.shown)

    def add_end(self, end: StepEnded, outcome: Outcome) -> None:
        """Add the outcome of a recorded end, unless the log of actions has it."""
        if end.key and outcome.action in (None, "not_done"):
            self.add(end.key, outcome)

    @property
    def called(self) -> frozenset[str]:
        """The ids of the calls of the caller's tools that the steps have made."""
        outcomes = [outcome for known in self._outcomes.values() for _, outcome in known]
        outcomes += [each.outcome for each in self.actions if each.outcome is not None]
        calls = [outcome.tool_calls for outcome in outcomes]
        calls += [message.tool_calls for outcome in outcomes for message in outcome.said]
        found = frozenset(str(call.get("id")) for made in calls for call in made)
        return found if self.before is None else found | self.before.called

    def nested_in(self, number: int, step: int, workers: Sequence[str]) -> "PaidResults | None":
        """Return the results of the nested run of a step that waits for results of the caller's tools.

        Raises:
            ConfigError: the pool of the nested run lacks a worker of its plan.
        """
        events = self.nested.get((number, step))
        if events is None:
            return None if self.before is None else self.before.nested_in(number, step, workers)
        return unbilled(events, workers, moved=bool(self.moved))

    def continue_from(self, before: "PaidResults") -> None:
        """Take the results of an earlier run, which this run has not recorded yet."""
        self.before = before
        before.drop(self.places)
        self.add_actions(before.actions)
        for number, each in before.rounds.items():
            if self.round(number).ready is None:
                self.rounds[number] = each

    @property
    def places(self) -> dict[str, set[tuple[int, int]]]:
        """By key: round and step of each outcome."""
        return {key: {(each.round, each.step) for _, each in known} for key, known in self._outcomes.items()}

    def drop(self, later: Mapping[str, set[tuple[int, int]]]) -> None:
        """Remove the outcomes of steps that have one in a later run, too: each is for one step."""
        every = set[tuple[int, int]]().union(*later.values())
        for key, known in self._outcomes.items():
            gone = every if self.moved else later.get(key, set())
            known[:] = [each for each in known if (each[1].round, each[1].step) not in gone]

    def add_actions(self, earlier: Iterable[Execution]) -> None:
        """Add the actions of earlier runs, except those that this run has recorded because it took them."""
        known = Counter(each.action.key for each in self.actions)
        for execution in earlier:
            known[execution.action.key] -= 1
            if known[execution.action.key] < 0:
                self.actions.append(execution)

    def shown(self, number: int, step: int) -> Sequence[tuple[int, ...]]:
        """Return what the `ok` outcomes of a step saw, the latest first, if they did not see everything."""
        return self._shown.get((number, step), [])[::-1]

    def partial(self, number: int) -> set[int]:
        """Return the steps of a round that have outcomes which did not see everything."""
        return {step for round_, step in self._shown if round_ == number}

    def round(self, number: int) -> RoundState:
        """Return what is recorded of a round."""
        return self.rounds.get(number) or RoundState(number)

    def set_plan(self, number: int, plan: Plan | None) -> None:
        """Replace the plan of a round, and remove the decision on it."""
        ready = None
        if plan is not None:
            by = plan.planner or PlannedBy("user", "the plan was changed")
            ready = PlanReady(run_id="", at=0.0, round=number, plan=plan, planner=by.name, why=by.why)
            ready = replace(ready, is_fallback=by.is_fallback)
        self.rounds[number] = replace(self.round(number), ready=ready, decision=None)
        self.stand_ins.discard(number)

    @property
    def latest(self) -> int:
        """The number of the latest round with a plan; 0 without one."""
        return max((number for number, each in self.rounds.items() if each.ready is not None), default=0)

    def forget(self, number: int, steps: Collection[int]) -> None:
        """Remove the outcomes of steps of a round, and all later rounds. Actions are not repeated."""
        for known in self._outcomes.values():
            known[:] = [each for each in known if not _is_from(each[1], number, steps)]
        self.rounds = {each: state for each, state in self.rounds.items() if each <= number}

    def find(self, key: str, number: int, step: int) -> tuple[int, Outcome] | None:
        """Return the rank of an outcome with this key, preferably of this step, and the outcome."""
        known = self._outcomes.get(key, [])
        own = (each for each in known if (each[1].round, each[1].step) == (number, step))
        return next(own, known[0] if known else None)

    def take(self, key: str, number: int, step: int) -> Outcome | None:
        """Return and remove the outcome that `find` finds."""
        if (found := self.find(key, number, step)) is None:
            return None
        self._outcomes[key].remove(found)  # two steps with the same input may need two answers
        outcome = found[1]
        if (outcome.round, outcome.step) == (number, step):
            return replace(outcome, reused=True)
        return without_cost(outcome, number, step)  # its cost counts where it was made


def _is_from(outcome: Outcome, number: int, steps: Collection[int]) -> bool:
    """Return whether an outcome is of one of the steps of a round, or of a later round."""
    return outcome.round > number or (outcome.round == number and outcome.plan_step in steps)


def runs_again(outcome: Outcome, latest: float) -> bool:
    """Return whether a resumed run runs a step again; `latest` is the number of the latest round."""
    # The planner knew of the failed steps of earlier rounds when it wrote the latest plan.
    return outcome.status != "ok" and (outcome.status != "failed" or outcome.round >= latest)


def _is_open(state: RunState, end: StepEnded) -> bool:
    """Return whether the nested run of a conductor is incomplete, so that a resumed run continues it."""
    outcome, step = end.outcome, state.rounds[end.round].steps[end.step]
    is_nested = bool(step.calls) and step.calls[-1].nests
    problem = outcome.problem if outcome.status == "ok" else None
    return is_nested and problem is not None and problem.code == INCOMPLETE


def paid_results_of(state: RunState, workers: Sequence[str]) -> PaidResults:
    """Return what a resumed run reuses; plans have the worker numbers of the current pool."""
    kept = {n for n, each in state.rounds.items() if each.ready is not None and each.ready.plan == KEPT}
    latest = max(
        (n for n, each in state.rounds.items() if each.reason is not None and n not in kept), default=0
    )
    is_waiting = isinstance(state.last, RunEnded) and state.last.result.status == "waiting"
    standing = state.settled if is_waiting else len(state.ends)
    paid = _with_plans(state, workers)
    paid.has_waited = is_waiting
    open_ = {id(end.outcome) for end in state.ends[:standing] if end.round >= latest and _is_open(state, end)}
    paid.actions = [each for each in paid.actions if not (each.is_nested_run and id(each.outcome) in open_)]
    for position, end in enumerate(state.ends):
        # A step does not run again if it failed during a pause.
        is_open = id(end.outcome) in open_
        if not is_open and not runs_again(end.outcome, latest if position < standing else inf):
            paid.add_end(end, end.outcome)
        is_gap = not end.key and end.outcome.status == "ok" and end.outcome.problem is not None
        if is_open or is_gap:
            paid.gaps.setdefault((end.round, end.step), []).append(end.outcome)
    current = paid.round(paid.latest)
    if not state.is_planned and current.ready is not None and current.ready.is_fallback:
        # A plan that was given to the run has no proposals.
        roles = [proposal.role for proposal in current.proposals]
        paid.stand_ins |= {current.number} if "fallback" in roles else set()
    stand = {id(end.outcome) for end in state.ends[standing:]}
    places = [(n, index, step) for n, each in state.rounds.items() for index, step in each.steps.items()]
    for number, index, step in places:
        cut = step.outcome
        if cut is not None and (cut.status, cut.finish_reason) == ("ok", "length"):
            caps = [call.start.reserved.output_tokens for call in step.calls if call.ended is cut]
            paid.caps[number, index] = max(caps, default=0)
        paid.charged |= {(number, index, call.bill.attempt) for call in step.calls}
        paid.attempts[number, index] = max((call.start.attempt for call in step.calls), default=0)
        for call in step.calls:
            ended = call.ended
            if ended is None or not (
                (ended.status == "ok" and id(ended) not in open_)
                or ended.round != latest
                or is_aside(ended)
                or (ended.status == "failed" and id(ended) in stand)
            ):
                paid.lost.setdefault((number, index), []).append(state.bill_of(step, call))
    return paid


def unbilled(events: Sequence[Event], workers: Sequence[str], *, moved: bool = False) -> PaidResults:
    """Return the results of a recorded run without their costs, for another run that reuses them.

    Steps that failed do not run again.

    Args:
        events: the events of the run; those of its nested runs say only which actions were carried out.
        workers: the names of the pool's workers.
        moved: whether the other run has another conversation, so that steps are found by their places.

    Raises:
        ConfigError: the pool lacks a worker of a plan.
    """
    state = _fold_of_family(events)
    paid = _with_plans(state, workers)
    paid.run_id = state.run_id
    for current in paid.rounds.values():
        current.planned = [replace(each, proposal=_free(each.proposal)) for each in current.planned]
    for end in state.ends:
        if not runs_again(end.outcome, inf):
            paid.add_end(end, replace(unpaid(end.outcome), started=None, ended=None))
    if moved:
        paid.moved = {(end.round, end.step): end.key for end in state.ends if end.key}
    for each in state.nested or ():
        run_id, number, step, _ = each.parent
        if run_id == state.run_id:
            paid.nested[number, step] = _family(events, each.run_id)
    return paid


def _family(events: Sequence[Event], run_id: str) -> Sequence[Event]:
    """Return the events of a run and of the runs nested in it; a run begins after the run around it."""
    family, found = {run_id}, list[Event]()
    for event in events:
        if isinstance(event, RunStarted) and event.parent is not None and event.parent[0] in family:
            family.add(event.run_id)
        found += [event] if event.run_id in family else []
    return found


def _free(proposal: Proposal) -> Proposal:
    return replace(proposal, usage=Usage(), cost=0.0, maybe_paid=False, charged="usage", seconds=0.0)


def actions_alone(events: Sequence[Event]) -> PaidResults:
    """Return only the actions of a recorded run, for another run with its own plan; see `unbilled`."""
    state = _fold_of_family(events)
    return PaidResults(run_id=state.run_id, actions=state.executions())


def _fold_of_family(events: Sequence[Event]) -> RunState:
    """Return the state of the run of the first event, with its nested runs."""
    runs: dict[str, list[Event]] = {events[0].run_id: []}
    for event in events:
        runs.setdefault(event.run_id, []).append(event)
    first, *nested = runs.values()
    return fold(first, nested)


def _with_plans(state: RunState, workers: Sequence[str]) -> PaidResults:
    """Return plans, decisions and actions, without the outcomes."""
    paid = PaidResults(approvals=dict(state.approvals), actions=state.executions())
    for number, current in state.rounds.items():
        ready, decision = current.ready, current.decision
        if ready is not None:
            ready = replace(ready, plan=for_pool(ready.plan, state.names, workers))
        if decision is not None and decision.plan is not None:
            decision = replace(decision, plan=for_pool(decision.plan, state.names, workers))
        planned = [each for each in current.planned if each.proposal.problem is not UNKNOWN]
        paid.rounds[number] = replace(current, ready=ready, decision=decision, planned=planned)
    return paid
