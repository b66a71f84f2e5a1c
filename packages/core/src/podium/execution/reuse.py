"""The steps of a round that need no call: their results are paid for, or their actions were carried out."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

from podium.budget.limits import Spend
from podium.errors import PlanInvalid, PodiumError
from podium.execution.context import RunContext
from podium.execution.graph import DependencyGraph
from podium.execution.node import STOPPED, StepNode
from podium.prompts.output import BadOutput, output_in
from podium.prompts.prompt import named_texts
from podium.run_state.actions import (
    ActionLog,
    Execution,
    Level,
    action_key,
    again_problem,
    outcome_again,
    undecided_problem,
)
from podium.run_state.paid import PaidResults, step_key
from podium.secrets import scrub
from podium.types.events import ApprovalGiven
from podium.types.outcome import Action, Call, Outcome, Problem, StepStatus, totals
from podium.types.plan import Plan
from podium.types.references import compact, literal, read_json, renumbered
from podium.types.result import STALE
from podium.types.steps import Block, Step, step_to_json, worker_of
from podium.workers.worker import StepInput, VisibleStep

Answerer = Callable[[Action, Plan, Step], Awaitable[str | Problem]]
"""Asks the question of a step of a plan, and returns the answer, or why there is none."""
Approver = Callable[[Action, Plan, frozenset[str]], Awaitable[ApprovalGiven | Problem | None]]
"""Returns the approval of an action of a plan, or why it is not carried out; `None` if nobody is asked. The
labels are those of the data that its worker sees."""


class Found(NamedTuple):
    """A paid result that a step may take."""

    order: tuple[int, bool, int, int]
    """Own results come first, in the order in which they ended: a step with `enough` then sees the same."""
    state: StepNode
    results: PaidResults
    key: str


@dataclass(slots=True, eq=False)
class PaidSteps:
    """Finds what a round reuses in place of a call.

    In this order: an outcome that a person has edited in the host; for an action, what the log of actions
    has, of which the k-th asking takes the k-th equal one; for another step, the recorded result of an equal
    input; an outcome that the host has stored; at last a result that was made from a part of the inputs.
    """

    context: RunContext
    number: int
    """Number of the round."""
    graph: DependencyGraph
    paid: PaidResults | None
    """The results of earlier rounds."""
    has_exact_keys: bool
    _repeated: dict[int, tuple[Call, ...]] = field(default_factory=dict)
    """For each step that runs again, the earlier calls that the record of the run does not have."""
    _cut: dict[int, Outcome] = field(default_factory=dict)
    """The paid results that were cut by limits, which are higher now."""

    def __post_init__(self) -> None:
        if self.number == 1 or self.context.settings.planner.rounds is None:
            self._log.new_plan()  # all turns of a planner are one plan

    @property
    def _log(self) -> ActionLog:
        return self.context.actions

    def charge(self, index: int, outcome: Outcome) -> tuple[Call, ...]:
        """Count the calls of a stored outcome that are not counted yet, and return them."""
        if not outcome.attempts:
            return ()
        charged = self.context.paid_results.charged
        known = {call.attempt for call in self._repeated.get(index, ())}
        calls = tuple(
            call
            for call in outcome.calls or (outcome.as_call(),)
            if call.attempt not in known and (self.number, index, call.attempt) not in charged
        )
        if calls:
            bill = totals(calls)
            self.context.ledger.charge(Spend.of(bill["usage"], bill["cost"], calls=len(calls)), steps=1)
        return calls

    def lost(self, index: int) -> tuple[Call, ...]:
        """Remove the earlier calls of a step that gave no result, and return them."""
        lost = self.context.paid_results.lost.pop((self.number, index), ())
        return (*self._repeated.pop(index, ()), *lost)

    def calls_before(self, index: int) -> tuple[tuple[Call, ...], tuple[Outcome, int] | None]:
        """Return and remove the lost calls of a step, and its result and cap if its answer was cut."""
        cut = self._cut.pop(index, None)
        caps = self.context.paid_results.caps
        return self.lost(index), None if cut is None else (cut, caps[self.number, index])

    def never_ran(
        self, state: StepNode, problem: Problem | None, status: StepStatus | None = None
    ) -> Outcome:
        """Return the outcome of a step that did not run, with its earlier calls."""
        calls = self.lost(state.index)
        return Outcome(
            round=self.number,
            step=state.index,
            worker=worker_of(state.step, self.context.settings.pool.names),
            path=state.path,
            status=status or ("cancelled" if problem is STOPPED else "skipped"),
            problem=problem,
            **totals(calls),
            calls=calls,
        )

    def find_recorded(self, state: StepNode) -> Found | None:
        """Return the paid result of a step that does not act; `None` if it needs a call."""
        if state.acts or state.said or state.paused or state.index in self._cut or not self._has_results:
            return None
        for later, (results, key) in enumerate(self._known(state)):
            known = results.find(key, self.number, state.index)
            if known is not None and self._is_cut(state, results, known[1]):
                self._cut[state.index] = self._taken(results, key, state.index) or known[1]
                return None
            if known is not None:
                rank, paid = known
                is_other = (paid.round, paid.step) != (self.number, state.index)
                return Found((later, is_other, rank, state.index), state, results, key)
        return None

    @property
    def _has_results(self) -> bool:
        request = self.context.request
        is_recorded = self.context.recorded is not None or request.paid_results is not None
        return self.has_exact_keys or is_recorded or request.host is not None

    def take_recorded(self, found: Found) -> Outcome | None:
        """Return and remove a paid result; `None` if another step has taken it."""
        if self.find_recorded(found.state) != found:
            return None
        return self._taken(found.results, found.key, found.state.index)

    def _is_cut(self, state: StepNode, results: PaidResults, outcome: Outcome) -> bool:
        """Return whether a step's answer was cut, and the limits of the run are higher now."""
        place = self.number, state.index
        return results.allows_more and place in results.caps and place == (outcome.round, outcome.step)

    def _taken(self, results: PaidResults, key: str, step: int) -> Outcome | None:
        """Return and remove a paid result, and count the actions of its nested runs as asked for."""
        if (known := results.find(key, self.number, step)) is not None:
            run_id = results.run_id or self.context.request.run_id
            self._log.take_inside(Level(run_id, known[1].round, known[1].step, ""))
        return results.take(key, self.number, step)

    def of_gap(self, ready: Sequence[StepNode]) -> tuple[StepNode, Outcome] | None:
        """Return a recorded step that saw only a part of its inputs, with its outcome; `None` for no step."""
        if (found := self._made_from_gap(ready)) is not None:
            return found
        paid_results, graph = self.context.paid_results, self.graph
        if self.context.request.refresh or not self._has_results:
            return None
        for index in sorted(paid_results.partial(self.number)):
            state = graph.states[index] if index < len(graph.states) else graph.parts.get(index)
            if state is None or state.acts or state.expands or state.said:
                continue
            if not (state.is_undecided or state in ready):
                continue
            for shown in paid_results.shown(self.number, state.index):
                seen = [each for each in state.inputs if each.index in shown]
                if len(seen) < len(shown) or not all(each.is_good for each in seen):
                    continue
                keys = state.key, state.exact
                self._set_keys(state, graph.seen(state, seen))
                outcome = self._taken(paid_results, state.key, state.index)
                if outcome is not None:
                    graph.show(state, shown)
                    return state, outcome
                state.key, state.exact = keys
        return None

    def _made_from_gap(self, ready: Iterable[StepNode]) -> tuple[StepNode, Outcome] | None:
        """Return a step whose recorded result was made from an incomplete map or loop, with its outcome."""
        gaps = self.context.paid_results.gaps
        if not gaps or self.context.request.refresh:
            return None
        for state in ready:
            for each in state.inputs:
                for gap in () if state.acts or state.said else gaps.get((self.number, each.index), ()):
                    outcome = self._with_gap(state, each, gap)
                    if outcome is not None:
                        return state, outcome
        return None

    def _with_gap(self, state: StepNode, each: StepNode, gap: Outcome) -> Outcome | None:
        """Return the recorded result of a step that saw an earlier output of another step; else `None`."""
        visible = [
            replace(shown, output=gap.text) if shown.step == each.number and not shown.where else shown
            for shown in state.visible or ()
        ]
        keys = state.key, state.exact
        self._set_keys(state, visible)
        outcome = self._taken(self.context.paid_results, state.key, state.index)
        if outcome is None:
            state.key, state.exact = keys
            return None
        price = f", which cost ${outcome.cost:.4f}," if outcome.cost else ""
        told = f"it was made before step {each.name} was complete: to make it again{price}"
        return replace(
            outcome, problem=Problem(STALE, f"{told} resume the run with refresh=True (--refresh)")
        )

    def _known(self, state: StepNode) -> list[tuple[PaidResults, str]]:
        """Return the collections of paid results, each with the key of the step in it."""
        if not state.key:
            self._set_keys(state, state.visible or ())
        recorded, place = self.context.paid_results, (self.number, state.index)
        every = [recorded] if recorded.before is None else [recorded, recorded.before]
        known = [(each, each.moved.get(place, state.key)) for each in every]
        return known if self.paid is None else [*known, (self.paid, state.exact)]

    def _set_keys(self, state: StepNode, visible: Sequence[VisibleStep]) -> None:
        """Set the keys of a step that sees `visible`."""
        context = self.context
        card = context.settings.pool.cards[state.call.worker]
        query = card.remembers(context.request.query) if context.shows_question else ()
        subtask = renumbered(state.call.subtask, state.step.access.index)
        seen = tuple(
            replace(each, gap=self._content(state.seen(each.step))) if each.gap and not each.where else each
            for each in visible
        )
        step_input = StepInput(subtask, seen, query, texts=named_texts(subtask, context.request.context))
        worker = context.settings.pool.names[state.call.worker]
        tool_messages = context.exchange.others if state is self.graph.last else ()
        if state.call == context.settings.verbatim:
            tool_messages = context.request.tool_messages
        returns = state.call.returns
        state.key = step_key(worker, step_input, tool_messages, returns=returns)
        if self.has_exact_keys:
            state.exact = step_key(worker, step_input, tool_messages, returns=returns, exact=True)

    def _content(self, state: StepNode) -> str:
        """Return a hash of a step's worker and subtask, and of the steps on its access list."""
        hashes: dict[StepNode, str] = {}
        todo = [state]
        while todo:
            each = todo[-1]
            if missing := [seen for seen in each.inputs if seen not in hashes]:
                todo += missing
                continue
            step, names = each.step, self.context.settings.pool.names
            told = [
                worker_of(step, names),
                step.subtask if isinstance(step, Step) else step_to_json(step, names),
            ]
            told += [hashes[seen] for seen in each.inputs]
            hashes[todo.pop()] = sha256(scrub(repr(told)).encode("utf-8", "surrogatepass")).hexdigest()
        return hashes[state]

    def of_actions(self, state: StepNode) -> Outcome | None:
        """Return the outcome of an action that must not be carried out now; `None` if it must."""
        log, paid_results = self._log, self.context.paid_results
        action = self._ask(state)
        if action is None:  # no worker is called
            return None
        if (undecided := log.undecided(action)) is not None:
            state.took = undecided.action
            log.take(undecided, action)
            problem = undecided_problem(undecided.action)
            return replace(self.never_ran(state, problem, "failed"), action="unknown")
        place = action.key, action.round, action.step
        known = paid_results.find(*place)
        if known is not None and (known[1].round, known[1].step) == place[1:]:
            return paid_results.take(*place)  # in an earlier process, it did not reach its worker
        if (execution := log.recorded(action)) is None:
            return None
        state.took = execution.action
        log.take(execution, action)
        return outcome_again(execution, action, log.remedy(execution.action))

    def change(self, state: StepNode, arguments: str) -> Outcome | None:
        """Change what an action is asked to do; return its outcome if it must not be carried out now."""
        state.step, state.template = replace(state.call, subtask=literal(arguments)), ""
        state.action, state.key = None, ""
        return self.of_actions(state)

    def of_host(self, state: StepNode, *, edited: bool) -> Outcome | None:
        """Return the outcome of a step that the host has stored, if it stands; else `None`.

        Args:
            state: the step.
            edited: whether it must be edited; otherwise it must have the same input.
        """
        host, plan = self.context.request.host, self.graph.plan
        found = None if host is None or plan is None else host.stored(self.number, plan, state.name)
        if found is None or (found[0] is None) != edited:
            return None
        key, outcome = found
        if edited and not state.acts:
            outcome = _typed(state, outcome)
        if not state.expands:
            self._ask(state) if state.acts else self._known(state)
        if not edited and state.key != key:
            return None
        calls = self.charge(state.index, outcome)
        # It runs again: it was not carried out, or a person has said so in the journal (see `of_actions`).
        is_open = outcome.action in (None, "not_done") or (state.action and self._log.has(state.action))
        if not edited and outcome.status != "ok" and is_open:
            self._repeated[state.index] = (*self._repeated.get(state.index, ()), *calls)
            return None
        self._log_stored(state, outcome)
        if edited and outcome.status != "ok" and outcome.action == "not_done":  # a person has it carried out
            return None
        return replace(outcome, round=self.number, step=state.index, reused=True)

    def _log_stored(self, state: StepNode, outcome: Outcome) -> None:
        """Count the actions of a step whose outcome the host has stored, unless the log has them."""
        log, run_id = self._log, self.context.request.run_id
        log.take_inside(Level(run_id, outcome.round, outcome.step, ""))
        if not state.acts or outcome.action is None or (action := self._ask(state)) is None:
            return
        execution = log.recorded(action)
        if execution is not None and execution.is_decided_by(outcome):
            execution.end(outcome)
        if outcome.action == "not_done":
            return
        if execution is not None:
            log.take(execution, action)
            return
        path, levels = log.path(action.worker), log.levels(action.round, action.step, action.path)
        execution = Execution(action, path=path, levels=levels)
        log.begin(execution)
        execution.end(outcome)

    def repeats(self, state: StepNode) -> Problem | None:
        """Return the problem of an agent that acted for another plan, too; `None` for other workers."""
        action = state.action
        if action is None or not self.context.settings.pool.workers[state.call.worker].reads_prose:
            return None
        other = self._log.of_another_plan(action)
        return None if other is None else again_problem(other, action.asked)

    def _ask(self, state: StepNode) -> Action | None:
        """Set what an action is asked to do, and return it; `None` if its input is too long."""
        if state.action is not None:
            return state.action
        context = self.context
        worker = context.settings.pool.workers[state.call.worker]
        try:
            shown = context.input_of(worker, state.call, state.visible or (), state.template)
        except PlanInvalid:
            return None
        try:
            asked = worker.asked(shown)
        except PodiumError:  # a fallback may accept the input
            asked = shown.subtask
        state.key = action_key(worker.card.name, asked)
        state.action = self._place(state, asked)
        return state.action

    def question(self, state: StepNode) -> Action:
        """Return the question of a step for a person; raise `PodiumError` if the person may not see it."""
        context, worker = self.context, self.context.settings.pool.workers[state.call.worker]
        context.policy.guard(worker.card, state.labels)
        if not state.key:
            self._set_keys(state, state.visible or ())
        step = replace(state.call, returns=None)  # people are shown the type of the answer apart
        shown = context.input_of(worker, step, state.visible or (), state.template)
        return self._place(state, worker.asked(shown))

    def _place(self, state: StepNode, asked: str) -> Action:
        return Action(
            run_id=self.context.request.run_id,
            round=self.number,
            step=state.index,
            path=state.path,
            worker=self.context.settings.pool.names[state.call.worker],
            asked=asked,
            key=state.key,
        )


def _typed(state: StepNode, outcome: Outcome) -> Outcome:
    """Return the edited outcome of a step: failed if the output does not fit the step's type."""
    schema = None if isinstance(state.step, Block) else state.call.returns
    is_list = state.step.each is not None
    if outcome.status != "ok" or (schema is None and not is_list):
        return outcome
    try:
        text = output_in(outcome.text, {"type": "array"} if is_list else schema or {}, None)
        for item in read_json(text) if is_list and schema is not None else ():
            if item is not None:  # a failed item
                output_in(compact(item), schema or {}, None)
        return replace(outcome, text=text)
    except BadOutput as error:
        problem = Problem("bad_output", f"the edited output of step {state.name} {error}")
        return replace(outcome, status="failed", problem=problem)
