"""Schedules the steps of one round: each step starts as soon as its inputs exist."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from types import TracebackType
from typing import Self

import anyio

from podium.aio.sync import interrupt_of
from podium.budget.limits import Spend
from podium.errors import ConfigError, WorkerActs
from podium.execution.context import NO_OUTCOMES, HostExit, Pause, RunContext, StepStarter
from podium.execution.expansion import NOT_NEEDED, Batch, Ending
from podium.execution.fit import Fit
from podium.execution.gate import Gate
from podium.execution.graph import (
    ABORTED,
    ENOUGH,
    STOPPED,
    SUPERSEDED,
    UNSEEN,
    WAITING,
    DependencyGraph,
)
from podium.execution.node import StepNode, Unmet
from podium.execution.reuse import Approver, Found, PaidSteps
from podium.execution.slots import Slots
from podium.execution.step import StepRunner
from podium.policy.rules import after
from podium.run_state.actions import group_of
from podium.run_state.paid import PaidResults
from podium.secrets import BUGS
from podium.types.events import AnswerDelta, StepDelta
from podium.types.outcome import CONDITION, Outcome, Problem, StepStatus
from podium.types.plan import Plan
from podium.types.steps import AnyStep

_ENDED = Problem("ended", "all of its parts have ended")


class RoundScheduler:
    """The scheduler of one round; an async context manager that ends when all steps have ended."""

    plan: Plan
    """The complete plan, if a host starts its steps."""

    def __init__(
        self,
        context: RunContext,
        number: int,
        *,
        last: bool,
        may_replan: bool = False,
        paid: PaidResults | None = None,
        approve: Approver | None = None,
        approve_fan_out: Approver | None = None,
    ) -> None:
        self.run_id = context.request.run_id
        self.round = number
        self.workers = context.settings.pool.names
        self._context = context
        self._last = last
        """Whether no later round can improve the answer, so that its text is sent while it is written."""
        on_failure = context.settings.on_failure
        if on_failure == "replan" and not may_replan:
            on_failure = "note"
        self._graph = DependencyGraph(context, on_failure, context.paid_results.round(number).places)
        self._fit = Fit(context, self._graph)
        has_exact_keys = may_replan or paid is not None
        self._paid = PaidSteps(context, number, self._graph, paid, has_exact_keys=has_exact_keys)
        self._approve = approve
        self._answering: StepNode | None = None
        self._ended = 0
        self.waits: dict[int, Problem] = {}
        """For the index of each action that waits for a person: why it has not started."""
        self._askings: dict[tuple[str, str], anyio.Lock] = {}
        """For equal actions of the items of maps: the lock of the one that is carried out."""
        self._has_unwanted = False
        self.answer_sent = False
        """Whether a piece of the answer was sent before the round ended."""
        self.broke: Exception | None = None
        """The exception of the user's code or of the step starter."""
        self._is_hosted = context.request.step_starter is not None
        """Whether a host starts the steps. Before the plan is complete, the run starts them itself."""
        self._tasks = anyio.create_task_group()
        most = [card.concurrency for card in context.settings.pool.cards]
        self._slots = Slots(context.settings.limits.concurrency, most)
        self._gate = Gate(context, self._graph, self._fit, approve_fan_out, number)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            return await self._tasks.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as group:
            if (interrupt := interrupt_of(group)) is not None:
                raise interrupt from None
            raise
        finally:
            needs = next(iter(self.waits.values()), STOPPED)
            for state in [] if isinstance(self.broke, Pause) else self._graph.live:
                if state.outcome is None:  # stopped before it could start, or it waits for an approval
                    self._end(state, self._paid.never_ran(state, self.waits.get(state.index, needs)))
            self._fit.end()

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of ended steps, in the plan's order; the outcomes of superseded steps are last."""
        return tuple([state.outcome for state in self._graph.all if state.outcome is not None])

    @property
    def labels(self) -> tuple[frozenset[str], ...]:
        """The labels of the steps' outputs, in the plan's order; empty for steps without an output."""
        return tuple([state.written for state in self._graph.states])

    @property
    def answer(self) -> int:
        """The index of the step that gives the answer."""
        return self._graph.answer

    @property
    def are_whole(self) -> tuple[bool, ...]:
        """Whether each output is complete and was made from complete inputs, in the plan's order."""
        return tuple([state.is_whole for state in self._graph.states])

    @property
    def keyed(self) -> list[tuple[str, Outcome]]:
        """The outcomes in the order in which they ended, each with its exact key."""
        ended = sorted(self._graph.all, key=lambda state: state.rank)
        return [(state.exact, state.outcome) for state in ended if state.exact and state.outcome]

    def add(self, step: AnyStep) -> None:
        """Add the next step of the plan; it starts when the steps on its access list have ended."""
        self._start(self._admitted(self._settle(self._decide([self._graph.append(step)]))))

    def complete(self, plan: Plan) -> None:
        """Set the complete plan, and start the steps that can start."""
        self._start(self._prepare(plan))

    def _prepare(self, plan: Plan) -> list[StepNode]:
        """Set the complete plan, and return the steps that can start."""
        self._take(plan)
        needed = plan.reaching(*plan.answers, *self._context.settings.actions_of(plan))
        for state in self._graph.states:
            if state.index not in needed:
                self._give_up(state, UNSEEN)
        ready = self._settle(self._decide(self._graph.states))
        self._fit.plan()
        ready = self._settle(ready)
        self._send_answer()
        return ready

    def preview(self, plan: Plan) -> tuple[list[Outcome], Spend]:
        """Return the recorded outcomes that a plan keeps, and what its other steps need; nothing is called."""
        self._prepare(plan)
        ended = [state.outcome for state in self._graph.live if state.outcome is not None]
        kept = [outcome for outcome in ended if outcome.reused]
        return kept, self._gate.expected(self._graph.states)

    async def complete_by(self, plan: Plan, step_starter: StepStarter) -> None:
        """Set the complete plan, and let `step_starter` start the steps, with `run` and `take`."""
        self.plan = plan
        self._prepare(plan)
        for state in self._graph.states:
            if state.scope is None and state.outcome is None:  # admitted, but it has not begun
                state.early = None
        try:
            await step_starter(self)
        except Exception as error:  # noqa: BLE001 - raised after the task group, which would wrap it in a group
            self.broke = error

    async def run(self, index: int, known: Mapping[int, Outcome] = NO_OUTCOMES) -> Outcome:
        """Run a step whose inputs have ended, and return its outcome; wait for a step that started early."""
        for other, outcome in known.items():
            self.take(other, outcome)
        if not 0 <= index < len(self.plan.steps):
            raise ConfigError(f"the plan has no step {index}; its steps are 0 to {len(self.plan.steps) - 1}")
        state = self._graph.states[index]
        await self._wait(state)
        if state.outcome is None:
            if state.visible is None:
                raise ConfigError(f"step {index} was started before the steps on its access list had ended")
            if state.scope is not None:
                raise ConfigError(f"step {index} was started twice")
            await self._carry_out(state)
            if state.index in self.waits and state.outcome is None:
                return self._paid.never_ran(state, self.waits[state.index])
            self._settle(self._release(state))
            if state.acts and self._context.recorded is not None:
                await self._context.recorded()  # the host may store the outcome, but not before the journal
        if self._graph.states[index] is not state:  # its worker turned out to act
            return await self.run(index)
        assert state.outcome is not None
        return state.outcome

    async def _wait(self, state: StepNode) -> None:
        """Wait for the end of a step that the run started."""
        if state.early is not None:
            await state.early.wait()
            state.early = None
            if (left := state.left) is not None:
                state.left = None
                raise left

    def take(self, index: int, outcome: Outcome) -> None:
        """Reuse the outcome of a step that ran before, and count its cost."""
        state = self._graph.states[index]
        if state.outcome is not None or state.scope is not None:
            return
        self._paid.charge(index, outcome)
        if state.visible is None:
            state.visible, state.labels = (), self._shown_labels(state.step)
            state.shown = outcome.shown
        self._paid.stored(state, outcome)
        self._end(state, replace(outcome, round=self.round, step=index, reused=True))
        self._settle(self._release(state))

    def charge(self, index: int, outcome: Outcome) -> None:
        """Count the spending of a stored attempt of a step, before the step runs again."""
        self._paid.repeat(index, outcome)

    def _written(self, index: int) -> frozenset[str]:
        """Return the labels of a step's output, computed from the plan if the host has the outcome."""
        state = self._graph.states[index]
        if state.outcome is not None:
            return state.written
        return after(self._context.settings.pool.cards[state.call.worker], self._shown_labels(state.step))

    def _shown_labels(self, step: AnyStep) -> frozenset[str]:
        previous = self._context.previous.labels if step.previous else frozenset[str]()
        return self._context.labels.union(previous, *map(self._written, step.access))

    def stop(self, bug: Exception) -> None:
        """Cancel all steps because of a bug in the user's code; the run raises the exception later."""
        self.broke = self.broke or bug
        self._tasks.cancel_scope.cancel()

    def refuse(self, plan: Plan, problem: Problem) -> None:
        """Set the complete plan and skip all its steps."""
        self._take(plan)
        for state in self._graph.states:
            self._give_up(state, problem)

    def _take(self, plan: Plan) -> None:
        self._context.actions.accept(plan, self.workers)
        for state in self._graph.take(plan):
            self._give_up(state, SUPERSEDED)

    def _admitted(self, ready: list[StepNode]) -> list[StepNode]:
        """Return the steps that the run starts itself; a host waits for those, and starts the others."""
        if not self._is_hosted:
            return ready
        if self._graph.plan is not None:
            return []
        workers = self._context.settings.pool.workers
        ready = [state for state in ready if not workers[state.call.worker].is_interruptible]
        for state in ready:
            state.early = anyio.Event()
        return ready

    def _start(self, ready: Iterable[StepNode]) -> None:
        for state in self._let_in(ready):
            self._tasks.start_soon(self._work, state)

    def _let_in(self, ready: Iterable[StepNode]) -> list[StepNode]:
        """Return the steps that may start now; the others wait at the gates of the items around them."""
        free: list[StepNode] = []
        for state in ready:
            if (batch := state.closed_batch) is None:
                free.append(state)
                continue
            batch.ready.append(state)
            if not batch.is_asked:
                batch.is_asked = True
                self._tasks.start_soon(self._ask, batch)
        return free

    async def _ask(self, batch: Batch) -> None:
        """Start the steps that wait at a gate, or end the map or the loop."""
        try:
            problem = await self._gate.passes(batch)
        except BUGS as bug:
            self.stop(bug)
            return
        if problem is not None and problem.code == WAITING:
            self.waits[batch.node.index] = problem
            return
        if problem is None:
            batch.is_open = True
        elif batch.node.outcome is None:
            batch.node.unmet = "failed", problem
            self._graph.due[batch.node] = None
        ready, batch.ready = batch.ready, []
        decided = self._decide(each for each in batch.nodes if each.unmet is not None)
        self._start(self._settle([*decided, *(each for each in ready if each.outcome is None)]))

    async def _work(self, state: StepNode) -> None:
        """Run a step, then the steps that it releases: the first in this task, the others in new tasks."""
        current: StepNode | None = state
        while current is not None:
            if current.outcome is None:
                if self._is_hosted and current.early is None:
                    return
                try:
                    await self._carry_out(current)
                except BUGS as bug:
                    self.stop(bug)
                except anyio.get_cancelled_exc_class():
                    self._settle(self._release(current))  # the host may still run the steps that follow
                    if current.early is not None:
                        current.early.set()
                    raise
            if current.early is not None:
                current.early.set()
            if current.outcome is None or self.broke is not None:  # left to the host, or a bug
                return
            ready = self._admitted(self._settle(self._release(current)))
            ready = self._let_in(ready)
            current = ready.pop(0) if ready else None
            self._start(ready)

    def _release(self, state: StepNode) -> list[StepNode]:
        """Return the steps that can start after `state` has ended; end the steps that can never start."""
        return self._decide(state.released())

    def _decide(self, states: Iterable[StepNode]) -> list[StepNode]:
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
                    self._end(state, self._paid.never_ran(state, graph.lack(state)))
                    todo += state.released()
                case "end":
                    assert state.unmet is not None
                    status, problem = state.unmet
                    self._end(state, self._paid.never_ran(state, problem, status))
                    todo += state.released()
                case "stand":
                    self._stand_in(state)
                    todo += state.released()
                case "abort":
                    for other in graph.live:
                        self._give_up(other, ABORTED)
            todo += graph.recheck
            graph.recheck.clear()
        return [state for state in ready if state.outcome is None]

    def _shown(self, state: StepNode) -> bool:
        """Set what a step sees, and begin a map or a block; end the step if a reference has no value."""
        try:
            self._graph.show(state)
            if state.expands:
                state.has_begun = self._context.now()
                self._graph.expand(state)
        except Unmet as unmet:
            self._end(state, self._paid.never_ran(state, unmet.problem, unmet.status))
            return False
        return True

    def _advanced(self, state: StepNode) -> Sequence[StepNode]:
        """Let a map or a block go on; return the steps to decide on."""
        del self._graph.due[state]
        expansion = state.expansion
        if expansion is None or state.outcome is not None:
            return ()
        found: list[StepNode] = []
        try:
            if state.unmet is not None:
                raise Unmet(*state.unmet)
            found += expansion.advance()
            ending = expansion.ending()
        except Unmet as unmet:
            ending = Ending(unmet.status, unmet.problem)
        for each in expansion.unneeded():
            self._give_up(each, NOT_NEEDED)
            found += each.released() if each.outcome is not None else ()
        if ending is None:
            return found
        self._end_parts(state, Problem("cancelled", f"step {state.name} has ended"))
        bare = self._paid.never_ran(state, ending.problem or _ENDED, ending.status)
        now = self._context.now()
        self._end(
            state, replace(bare, text=ending.text, problem=ending.problem, started=state.has_begun, ended=now)
        )
        return [*found, *state.released()]

    def _end_parts(self, state: StepNode, reason: Problem) -> None:
        """Give up the unfinished items or turns of a map or block."""
        for each in () if state.expansion is None else state.expansion.children:
            self._give_up(each, reason)

    def _stand_in(self, state: StepNode) -> None:
        """End a step whose condition does not hold with the output of another step."""
        assert state.step.otherwise is not None
        other = state.frame.nodes[state.step.otherwise]
        outcome = other.outcome
        assert outcome is not None
        state.stand_in, state.is_typed, state.written = other, other.is_typed, other.written
        why = f"the output of step {other.name} stands for it"
        bare = self._paid.never_ran(state, Problem("else", why), "ok")
        if outcome.status == "ok":
            self._end(
                state, replace(bare, text=outcome.text, problem=outcome.problem, stands_for=other.index)
            )
            return
        status: StepStatus = "skipped" if other.is_dropped else "failed"
        code = CONDITION if other.is_dropped else "dependency"
        problem = Problem(code, f"{why}, which ended {outcome.status}")
        self._end(state, replace(bare, status=status, problem=problem))

    def _settle(self, ready: list[StepNode]) -> list[StepNode]:
        """End the steps that are paid for, refused or not needed, and return the other steps."""
        ready = self._recalled(ready)
        while ready and self._fit.refusal is not None:
            for state in ready:
                self._end(state, self._paid.never_ran(state, Problem.of(self._fit.refusal), "failed"))
            ready = self._recalled([after for state in ready for after in self._release(state)])
        if self._has_unwanted and self._graph.plan is not None:
            self._has_unwanted = False
            for state in self._graph.unwanted:
                self._give_up(state, ENOUGH)
            ready = [state for state in ready if state.outcome is None]
        return ready

    def _recalled(self, ready: Iterable[StepNode]) -> list[StepNode]:
        """End the steps that are already paid for, in the order in which they ended; return the others."""
        paid, todo, left = self._paid, deque(ready), list[StepNode]()
        found: list[tuple[tuple[int, bool, int, int], Found]] = []
        kept: tuple[StepNode, Outcome] | None = None
        while todo or found or (kept := paid.kept(left)) is not None:
            if todo:
                state, outcome = todo.popleft(), None
                if state.outcome is not None:
                    continue
                if state.acts:
                    outcome = paid.recall(state)
                elif (known := paid.find(state)) is not None:
                    heappush(found, (known.order, known))
                    continue
                if outcome is None:
                    left.append(state)
                    continue
            elif found:
                known = heappop(found)[1]
                state, outcome = known.state, paid.take(known)
                if outcome is None:  # another step has taken it
                    todo.append(state)
                    continue
            else:
                assert kept is not None
                state, outcome = kept
            self._end(state, outcome)
            todo += self._release(state)
        return [state for state in left if state.outcome is None]

    async def _carry_out(self, state: StepNode) -> None:
        """Run a step; equal actions of the items of a map one after the other, so that one is carried out."""
        if state.action is None or not (group := group_of(state.path)):
            await self._run_approved(state)
            return
        async with self._askings.setdefault((group, state.key), anyio.Lock()):
            if state.outcome is not None:
                return
            if (known := self._paid.recall(state)) is not None:
                self._end(state, known)
                return
            await self._run_approved(state)

    async def _run_approved(self, state: StepNode) -> None:
        """Run a step; an action only if it is approved. A step whose action waits has no outcome."""
        if state.action is not None and self._approve is not None:
            assert self._graph.plan is not None
            problem = await self._approve(state.action, self._graph.plan, state.labels)
            if state.outcome is not None:  # it was given up during the approval
                return
            if problem is not None and problem.code == WAITING:
                self.waits[state.index] = problem
                return
            if problem is not None:
                self._end(state, self._paid.never_ran(state, problem))
                return
        await self._run(state)

    async def _run(self, state: StepNode) -> None:
        """Run a step in its own cancel scope."""
        context, first, (before, paid) = self._context, state.following, self._paid.earlier(state.index)
        state.following += len(before)
        runner = StepRunner(
            context,
            self._fit,
            self.round,
            state,
            self._on_text,
            slots=self._slots,
            last=state is self._graph.last,
            before=before,
            paid=paid,
            repeats=None if state.action is None else self._paid.repeats(state),
            offers_tools=self._graph.has_whole_inputs(state),
        )
        deadline = context.ledger.deadline
        outcome, is_left = None, False
        with anyio.CancelScope(deadline=deadline) as scope:
            state.scope = scope
            try:
                outcome = await runner.run(deadline)
            except HostExit as left:
                if state.early is None:
                    raise
                runner.left(STOPPED)
                state.left, state.following, state.has_started = left, first, False
                state.calls, state.workers, is_left = [], [state.call.worker], True
            finally:
                if outcome is None and not is_left:
                    # The cancellation may come from the run's deadline and not from this scope.
                    timed_out = state.reason is None and context.clock() >= scope.deadline
                    reason = state.reason or STOPPED
                    outcome = runner.timed_out() if timed_out else runner.ended("cancelled", reason)
                state.scope = None
                if outcome is not None and self._turned_out(state, outcome):
                    outcome = replace(outcome, status="cancelled", problem=SUPERSEDED)
                if outcome is not None:
                    self._end(state, outcome)
        if runner.bug is not None:
            raise runner.bug

    def _turned_out(self, state: StepNode, outcome: Outcome) -> bool:
        """Return whether the worker has refused a step because it acts; the step is then an action."""
        code = None if outcome.problem is None else outcome.problem.code
        if state.acts or code != WorkerActs.code or state not in self._graph.live:
            return False
        again = self._graph.renew(state)
        if self._answering is state:
            self._answering = again
        return True

    def _send_answer(self) -> None:
        """Send the text of the last step as the answer, from now on."""
        state = self._graph.last
        if not (self._last and state is not None and self._context.request.stream):
            return
        self._answering = state
        if state.outcome is not None and state.outcome.text:
            self._emit_answer(state, state.outcome.text, state.outcome.attempts)
        elif state.outcome is None and state.text:
            self._emit_answer(state, state.text, state.calls[-1].number)

    def _on_text(self, state: StepNode, text: str, number: int) -> None:
        self._context.tell(StepDelta, round=self.round, step=state.index, attempt=number, text=text)
        # Compares states, not indices: a superseded step may write until it is cancelled.
        if self._answering is state:
            self._emit_answer(state, text, number)

    def _emit_answer(self, state: StepNode, text: str, number: int) -> None:
        self.answer_sent = True
        self._context.tell(AnswerDelta, round=self.round, step=state.index, attempt=number, text=text)

    def _give_up(self, state: StepNode, reason: Problem) -> None:
        if state.outcome is not None or state.reason is not None:
            return
        if state.acts and state.scope is not None:
            return  # the end of another step does not cancel an action
        state.reason = reason
        self._end_parts(state, reason)
        if state.scope is not None:
            state.scope.cancel()
        else:
            self._end(state, self._paid.never_ran(state, reason))

    def _end(self, state: StepNode, outcome: Outcome) -> None:
        if (outcome.shown, outcome.path) != (state.shown, state.path):
            outcome = replace(outcome, shown=state.shown, path=state.path)
        if state.acts and outcome.action is None:
            outcome = replace(outcome, action="not_done")
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
        self._graph.ended(state)
