"""The steps of a round that have ended, and those that can start."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from podium.execution.context import RunContext
from podium.execution.expansion import NOT_NEEDED, expand
from podium.execution.fit import Fit
from podium.execution.graph import ABORTED, ENOUGH, DependencyGraph
from podium.execution.node import STOPPED, Ending, StepNode, Unmet
from podium.execution.reuse import Found, PaidSteps
from podium.policy.rules import after
from podium.types.messages import Message
from podium.types.outcome import CONDITION, PAUSED, Outcome, Problem, StepStatus
from podium.types.steps import calls_in, static_place


class Progress:
    """Decides which steps can start, and ends the steps that need no call; it waits for nothing."""

    def __init__(self, context: RunContext, graph: DependencyGraph, fit: Fit, paid: PaidSteps) -> None:
        self._context = context
        self._graph = graph
        self._fit = fit
        self._paid = paid
        self._ended = 0
        self._has_unwanted = False

    def release(self, state: StepNode) -> list[StepNode]:
        """Return the steps that can start after `state` has ended; end the steps that can never start."""
        return self.decide(state.released())

    def decide(self, states: Iterable[StepNode]) -> list[StepNode]:
        """Return the steps that can start; end the steps that can never start, and check their dependents."""
        ready: list[StepNode] = []
        graph, todo = self._graph, deque(states)
        while todo or graph.due:
            if not todo:
                todo += self._advanced(next(iter(graph.due)))
                continue
            state = todo.popleft()
            match graph.verdict(state):
                case "start":
                    if self._shown(state):
                        self._has_unwanted = self._has_unwanted or state.shown is not None
                        ready += [] if state.expands else [state]
                    else:
                        todo += state.released()
                case "skip":
                    self.end(state, self._paid.never_ran(state, graph.lack(state)))
                    todo += state.released()
                case "end":
                    assert state.unmet is not None
                    status, problem = state.unmet
                    self.end(state, self._paid.never_ran(state, problem, status))
                    todo += state.released()
                case "stand":
                    self._stand_in(state)
                    todo += state.released()
                case "abort":
                    for other in graph.live:
                        self.give_up(other, ABORTED)
            todo += graph.recheck
            graph.recheck.clear()
        return [state for state in ready if state.outcome is None]

    def _shown(self, state: StepNode) -> bool:
        """Set what a step sees, and begin a map or a block; end the step if it has ended without a call."""
        try:
            self._graph.show(state)
            if state.expands and (given := self._paid.of_host(state, edited=True)) is not None:
                cards, labels = self._context.settings.pool.cards, state.labels
                parts = [after(cards[call.worker], labels) for call in calls_in([state.step])]
                state.is_typed, state.written = True, labels.union(*parts)
                self.end(state, given)
                return False
            if state.expands:
                state.started = self._context.now()
                expand(self._graph, state)
        except Unmet as unmet:
            self.end(state, self._paid.never_ran(state, unmet.problem, unmet.status))
            return False
        return True

    def _advanced(self, state: StepNode) -> Sequence[StepNode]:
        """Continue a map or a block, and return the steps to decide on."""
        del self._graph.due[state]
        expansion = state.expansion
        if expansion is None or state.outcome is not None:
            return ()
        found: list[StepNode] = []
        ending = None if state.unmet is None else Ending(*state.unmet)
        try:
            found += expansion.advance() if ending is None else ()
            ending = ending or expansion.ending()
            if ending is not None and any(each.is_stopped for each in expansion.children):
                ending = Ending("cancelled", STOPPED)
        except Unmet as unmet:
            ending = Ending(unmet.status, unmet.problem)
        for each in expansion.unneeded():
            if self._has_paid(each):  # it ends soon, and the next stage may have seen it
                continue
            self.give_up(each, NOT_NEEDED)
            found += each.released() if each.outcome is not None else ()
        if ending is None:
            return found
        self._end_parts(state, Problem("cancelled", f"step {state.name} has ended"))
        bare = self._paid.never_ran(state, ending.problem, ending.status)
        now = self._context.now()
        self.end(state, replace(bare, text=ending.text, started=state.started, ended=now))
        return [*found, *state.released()]

    def _has_paid(self, state: StepNode) -> bool:
        """Return whether a step that has not ended has a paid result, or a step inside of it has one."""
        if state.outcome is not None:
            return False
        if state.expansion is not None:
            return any(map(self._has_paid, state.parts))
        return state.visible is not None and not state.expands and self._paid.find_recorded(state) is not None

    def _end_parts(self, state: StepNode, reason: Problem) -> None:
        """Give up the unfinished items or turns of a map or block."""
        for each in state.parts:
            self.give_up(each, reason)

    def _stand_in(self, state: StepNode) -> None:
        """End a step whose condition does not hold with the output of another step."""
        assert state.step.otherwise is not None
        other = state.frame.nodes[state.step.otherwise]
        outcome = other.outcome
        assert outcome is not None
        state.stand_in, state.is_typed, state.written = other, other.is_typed, other.written
        why = f"the output of step {other.name} stands for it"
        bare = self._paid.never_ran(state, None, "ok")
        if outcome.status == "ok":
            self.end(state, replace(bare, text=outcome.text, problem=outcome.problem, stands_for=other.index))
            return
        status: StepStatus = "skipped" if other.is_dropped else "failed"
        code = CONDITION if other.is_dropped else "dependency"
        problem = Problem(code, f"{why}, which ended {outcome.status}")
        self.end(state, replace(bare, status=status, problem=problem))

    def settle(self, ready: list[StepNode]) -> list[StepNode]:
        """End the steps that are paid for, refused or not needed, and return the other steps."""
        ready = self._recalled(ready)
        while ready and self._fit.refusal is not None:
            for state in ready:
                self.end(state, self._paid.never_ran(state, Problem.of(self._fit.refusal), "failed"))
            ready = self._recalled([after for state in ready for after in self.release(state)])
        if self._has_unwanted and self._graph.plan is not None:
            self._has_unwanted = False
            for state in self._graph.unwanted:
                self.give_up(state, ENOUGH)
            ready = [state for state in ready if state.outcome is None]
        return ready

    def _recalled(self, ready: Iterable[StepNode]) -> list[StepNode]:
        """End the steps that are already paid for, in the order in which they ended; return the others."""
        paid, todo, left = self._paid, deque(ready), list[StepNode]()
        found: list[tuple[tuple[int, bool, int, int], Found]] = []
        kept: tuple[StepNode, Outcome] | None = None
        while todo or found or (kept := paid.of_gap(left)) is not None:
            if todo:
                state, outcome = todo.popleft(), None
                if state.outcome is not None:
                    continue
                outcome = paid.of_host(state, edited=True)
                if outcome is None and state.acts:
                    outcome = paid.of_actions(state)
                elif outcome is None and (known := paid.find_recorded(state)) is not None:
                    heappush(found, (known.order, known))
                    continue
                outcome = outcome or paid.of_host(state, edited=False)
                if outcome is None:
                    left.append(state)
                    continue
            elif found:
                known = heappop(found)[1]
                state, outcome = known.state, paid.take_recorded(known)
                if outcome is None:  # another step has taken it
                    todo.append(state)
                    continue
            else:
                assert kept is not None
                state, outcome = kept
            if self._is_answered(state, outcome):
                left += [] if state in left else [state]
                continue
            self.end(state, outcome)
            todo += self.release(state)
        return [state for state in left if not state.has_ended]

    def _is_answered(self, state: StepNode, outcome: Outcome) -> bool:
        """Return whether a step has called tools, and its worker is asked again with their results."""
        exchange = self._context.exchange
        if not outcome.tool_calls or not exchange.is_answered(outcome.tool_calls):
            return False
        state.said = (*outcome.said, Message("assistant", outcome.text, outcome.tool_calls))
        state.labels |= exchange.labels(state.said)
        return True

    def give_up(self, state: StepNode, reason: Problem) -> None:
        """Cancel a step that runs, and end another one; the end of another step cancels no action."""
        if state.outcome is not None or state.reason is not None:
            return
        if state.acts and state.scope is not None:
            return
        state.reason = reason
        self._end_parts(state, reason)
        if state.scope is not None:
            state.scope.cancel()
        elif state.paused is not None:
            self.end(state, replace(state.paused, status="skipped", problem=reason, tool_calls=()))
        else:
            self.end(state, self._paid.never_ran(state, reason))

    def end(self, state: StepNode, outcome: Outcome) -> None:
        """Set and tell the outcome of a step; a step that calls tools waits for their results."""
        if (outcome.shown, outcome.path) != (state.shown, state.path):
            outcome = replace(outcome, shown=state.shown, path=state.path)
        if outcome.action is None and self._lacks_actions(state, outcome):
            outcome = replace(outcome, action="failed" if _has_acted(state) else "not_done")
        if outcome.tool_calls:
            state.paused = outcome
        else:
            state.outcome, state.rank = outcome, self._ended
            state.is_whole = self._graph.is_whole(state)
            self._ended += 1
        if state.expansion is not None:
            parts = (each.written for each in state.expansion.children)
            state.written = state.reach.union(*parts)
        elif state.visible is not None and not state.expands:
            card = self._context.settings.pool.card_of(outcome.worker, state.call.worker)
            state.written = after(card, state.labels)
            state.is_typed = state.call.returns is not None or card.returns is not None
        self._context.tell_step_ended(outcome, state.key, state.took)
        if state.outcome is not None:
            self._graph.ended(state)
        elif state.path:
            self._graph.open_parts[static_place(state.path)].pop(state, None)

    def _lacks_actions(self, state: StepNode, outcome: Outcome) -> bool:
        """Return whether a step that has ended is an action, or a map or block that may lack some."""
        lacks_items = outcome.problem is not None and outcome.problem.code == "items"
        is_lacking = state.expands and (outcome.status != "ok" or lacks_items)
        return state.acts or (is_lacking and bool(self._context.settings.actions_in([state.step])))

    def close(self, waits: Mapping[int, Problem], *, stopped: bool) -> None:
        """End the steps that have not ended when the round ends.

        Args:
            waits: by index, why a step waits for a person.
            stopped: whether the round was stopped.
        """
        left = [each for each in self._graph.live if each.outcome is None]
        paused = [each for each in left if each.paused is not None]
        names = ", ".join(each.name for each in paused)
        why = Problem(PAUSED, f"it waits for the results of tool calls of step {names}")
        needs = next(iter(waits.values()), STOPPED if stopped or not paused else why)
        for state in left:
            if state.paused is not None:
                state.outcome = state.paused
            else:
                self.end(state, self._paid.never_ran(state, waits.get(state.index, needs)))


def _has_acted(state: StepNode) -> bool:
    """Return whether an action inside of a map or a block has begun."""
    ends = [each.outcome.action for each in state.parts if each.outcome is not None]
    return any(end not in (None, "not_done") for end in ends) or any(map(_has_acted, state.parts))
