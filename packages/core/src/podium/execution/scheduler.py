"""Schedules the steps of one round: each step starts as soon as its inputs exist."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Self

import anyio

from podium.aio.sync import first_of
from podium.budget.ledger import Kept
from podium.budget.limits import Spend
from podium.errors import PodiumError, WorkerActs
from podium.execution.context import Host, HostExit, RunContext
from podium.execution.fit import Fit
from podium.execution.gate import Gate
from podium.execution.graph import (
    SUPERSEDED,
    UNSEEN,
    WAITING,
    DependencyGraph,
)
from podium.execution.node import STOPPED, Batch, StepNode
from podium.execution.progress import Progress
from podium.execution.reuse import Answerer, Approver, PaidSteps
from podium.execution.slots import Slots
from podium.execution.step import StepRunner
from podium.policy.policy import Ask
from podium.run_state.actions import shared_name
from podium.run_state.paid import PaidResults
from podium.secrets import BUGS
from podium.types.events import AnswerDelta, StepDelta
from podium.types.messages import Part
from podium.types.outcome import Outcome, Problem
from podium.types.plan import Plan
from podium.types.steps import AnyStep, positions

NO_APPROVERS: Mapping[Ask, Approver] = MappingProxyType({})


class OpenCalls(NamedTuple):
    """Calls of the caller's tools without a result."""

    made: tuple[Part, ...] = ()
    labels: frozenset[str] = frozenset()
    """The labels of their arguments."""


class RoundScheduler:
    """The scheduler of one round; an async context manager that ends when all steps have ended."""

    def __init__(  # noqa: PLR0913 - what a round needs
        self,
        context: RunContext,
        number: int,
        *,
        last: bool,
        may_replan: bool = False,
        paid: PaidResults | None = None,
        approve: Mapping[Ask, Approver] = NO_APPROVERS,
        answer: Answerer | None = None,
    ) -> None:
        self.round = number
        self._context = context
        self._last = last
        """Whether no later round can improve the answer, so that its text is sent while it is written."""
        on_failure = context.settings.on_failure
        if on_failure == "replan" and not may_replan:
            on_failure = "note"
        self._graph = DependencyGraph(context, on_failure, context.paid_results.round(number).places)
        self._fit = Fit(context, self._graph)
        has_exact_keys = may_replan or paid is not None or bool(approve)
        self._paid = PaidSteps(context, number, self._graph, paid, has_exact_keys=has_exact_keys)
        self._steps = Progress(context, self._graph, self._fit, self._paid)
        self._approve = approve.get("actions")
        self._answer = answer
        self._answering: StepNode | None = None
        self.waits: dict[int, Problem] = {}
        """For the index of each action or question that waits for a person: why it has not started."""
        self._askings: dict[tuple[str, str], anyio.Lock] = {}
        """For equal actions of the items of maps: the lock of the one that is carried out."""
        self.answer_sent = False
        """Whether a piece of the answer was sent before the round ended."""
        self.broke: Exception | None = None
        """The exception of the user's code or of the host."""
        self._tasks = anyio.create_task_group()
        most = [card.concurrency for card in context.settings.pool.cards]
        self._slots = Slots(context.settings.limits.concurrency, most)
        self._approve_fan_out = approve.get("fan-outs")

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
            if (interrupt := first_of(group, KeyboardInterrupt, SystemExit, HostExit)) is not None:
                raise interrupt from None
            raise
        finally:
            self._steps.close(self.waits, stopped=kind is not None or self.broke is not None)
            self._fit.end()

    def forget(self) -> None:
        """Let go of the steps after the round."""
        for state in self._graph.all:
            state.forget()

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of steps, then of items and turns, both in the plan's order; then superseded ones."""
        return tuple([state.outcome for state in self._graph.all if state.outcome is not None])

    @property
    def labels(self) -> tuple[frozenset[str], ...]:
        """The labels of the steps' outputs, in the plan's order; empty for steps without an output."""
        return tuple([state.written for state in self._graph.states])

    @property
    def are_whole(self) -> tuple[bool, ...]:
        """Whether each output is complete and was made from complete inputs, in the plan's order."""
        return tuple([state.is_whole for state in self._graph.states])

    @property
    def calls(self) -> OpenCalls:
        """The calls of the caller's tools for whose results steps wait, in the plan's order."""
        if self.waits:
            return OpenCalls()
        live = sorted(self._graph.live, key=lambda each: positions(each.name))
        paused = [(each, each.paused) for each in live if each.paused is not None and each.reason is None]
        made = [call for _, outcome in paused for call in self._context.exchange.open(outcome.tool_calls)]
        return OpenCalls(tuple(made), frozenset[str]().union(*(each.written for each, _ in paused)))

    @property
    def keyed(self) -> list[tuple[str, Outcome]]:
        """The outcomes in the order in which they ended, each with its exact key."""
        ended = sorted(self._graph.all, key=lambda state: state.rank)
        return [(state.exact, state.outcome) for state in ended if state.exact and state.outcome]

    @cached_property
    def _gate(self) -> Gate:
        """The gate before items and turns."""
        return Gate(self._context, self._graph, self._fit, self._approve_fan_out, self.round)

    def add(self, step: AnyStep) -> None:
        """Add the next step of the plan; it starts when the steps on its access list have ended."""
        self._start(self._steps.settle(self._steps.decide([self._graph.append(step)])))

    def leave(self, kept: Kept) -> None:
        """Leave this for the next message of the planner."""
        self._fit.leave(kept)

    def complete(self, plan: Plan) -> None:
        """Set the complete plan, and start the steps that can start."""
        ready = self._prepare(plan)
        if self._context.request.host is not None and plan.steps:
            self._tasks.start_soon(self._show, self._context.request.host, plan)
        self._start(ready)

    def _prepare(self, plan: Plan) -> list[StepNode]:
        """Set the complete plan, and return the steps that can start."""
        self._take(plan)
        needed = plan.reaching(*plan.answers, *self._context.settings.actions_of(plan))
        for state in self._graph.states:
            if state.index not in needed:
                self._steps.give_up(state, UNSEEN)
        ready = self._steps.settle(self._steps.decide(self._graph.states))
        self._fit.plan()
        ready = self._steps.settle(ready)
        self._send_answer()
        return ready

    def preview(self, plan: Plan) -> tuple[list[Outcome], Spend, tuple[str, ...]]:
        """Return the recorded outcomes that a plan keeps, and what its other steps need; call nothing.

        The last value has the names of the maps whose items are not known.
        """
        self._prepare(plan)
        ended = [state.outcome for state in self._graph.live if state.outcome is not None]
        kept = [outcome for outcome in ended if outcome.reused]
        open_ = [state for state in self._graph.live if state.outcome is None]
        unlisted = [state.name for state in open_ if state.step.each is not None and not state.parts]
        return kept, self._gate.expected(self._graph.states), tuple(unlisted)

    async def _show(self, host: Host, plan: Plan) -> None:
        try:
            if self._context.recorded is not None:  # then the listeners know what has ended
                await self._context.recorded()
            await host.show(self.round, plan)
        except Exception as error:  # noqa: BLE001 - raised after the task group, which would wrap it in a group
            self.stop(error)

    def stop(self, bug: Exception) -> None:
        """Cancel all steps because of a bug in the user's code; the run raises the exception later."""
        self.broke = self.broke or bug
        self._tasks.cancel_scope.cancel()

    def refuse(self, plan: Plan, problem: Problem) -> None:
        """Set the complete plan and skip all its steps."""
        self._take(plan)
        for state in self._graph.states:
            self._steps.give_up(state, problem)

    def _take(self, plan: Plan) -> None:
        self._context.actions.accept(plan, self._context.settings.pool.names)
        for state in self._graph.take(plan):
            self._steps.give_up(state, SUPERSEDED)

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
        if (host := self._context.request.host) is not None:
            host.begin(self.round, [state.name for state in free])
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
        decided = self._steps.decide(each for each in batch.nodes if each.unmet is not None)
        self._start(self._steps.settle([*decided, *(each for each in ready if each.outcome is None)]))

    async def _work(self, state: StepNode) -> None:
        """Run a step, then the steps that it releases: the first in this task, the others in new tasks."""
        current: StepNode | None = state
        while current is not None:
            if current.outcome is None:
                try:
                    await self._carry_out(current)
                except BUGS as bug:
                    self.stop(bug)
                except HostExit as left:
                    if (host := self._context.request.host) is None or not host.keeps(left):
                        raise
                except anyio.get_cancelled_exc_class():
                    self._steps.settle(self._steps.release(current))
                    raise
            if current.outcome is None or self.broke is not None:  # it waits, or a bug
                return
            ready = self._let_in(self._steps.settle(self._steps.release(current)))
            current = ready.pop(0) if ready else None
            self._start(ready)

    async def _carry_out(self, state: StepNode) -> None:
        """Run a step; equal actions of the items of a map one after the other, so that one is carried out."""
        if state.asks:
            await self._ask_person(state)
            return
        if state.action is None or "[" not in state.path:
            await self._run_approved(state)
            return
        async with self._askings.setdefault((shared_name(state.path), state.key), anyio.Lock()):
            if state.outcome is not None:
                return
            if (known := self._paid.of_actions(state)) is not None:
                self._steps.end(state, known)
                return
            await self._run_approved(state)

    async def _ask_person(self, state: StepNode) -> None:
        """End a step with the answer of a person. A step whose question waits has no outcome."""
        assert self._graph.plan is not None
        assert self._answer is not None
        said: str | Problem = STOPPED
        with anyio.CancelScope() as state.scope:
            try:
                said = await self._answer(self._paid.question(state), self._graph.plan, state.call)
            except PodiumError as error:
                said = Problem.of(error)
        state.scope, never_ran = None, self._paid.never_ran
        if isinstance(said, str):
            self._steps.end(state, replace(never_ran(state, None, "ok"), text=said))
        elif said.code == WAITING:
            self.waits[state.index] = said
        else:
            self._steps.end(state, never_ran(state, state.reason or said, None if state.reason else "failed"))

    async def _run_approved(self, state: StepNode) -> None:
        """Run a step; an action only if it is approved. A step whose action waits has no outcome."""
        if state.action is not None and self._approve is not None:
            assert self._graph.plan is not None
            said = await self._approve(state.action, self._graph.plan, state.labels)
            if state.outcome is not None:  # it was given up during the approval
                return
            if isinstance(said, Problem) and said.code == WAITING:
                self.waits[state.index] = said
                return
            if isinstance(said, Problem):
                self._steps.end(state, self._paid.never_ran(state, said))
                return
            changed = None if said is None else said.arguments
            if changed is not None and (known := self._paid.change(state, changed)) is not None:
                self._steps.end(state, known)
                return
        host = self._context.request.host
        if host is None or not self._context.hosted(state.call):
            await self._run(state)
            return
        await host.call(self.round, state.name, partial(self._run, state))
        if not state.has_ended and state.index not in self.waits:
            self.waits[state.index] = Problem(WAITING, f"step {state.name} waits for the host")

    async def _run(self, state: StepNode) -> None:
        """Run a step in its own cancel scope."""
        if state.outcome is not None:  # it was given up before the host carried it out
            return
        context, (before, paid) = self._context, self._paid.calls_before(state.index)
        made = context.paid_results.attempts.get((self.round, state.index), 0)
        state.following = max(state.following + len(before), made + 1)
        runner = StepRunner(
            context,
            self._fit,
            self.round,
            state,
            self._on_text,
            slots=self._slots,
            last=state is self._graph.last and context.settings.planner.rounds is None,
            before=before,
            paid=paid,
            repeats=None if state.action is None else self._paid.repeats(state),
            offers_tools=self._graph.plan is not None and self._graph.has_whole_inputs(state),
        )
        deadline = context.ledger.deadline
        outcome, is_left = None, False
        with anyio.CancelScope(deadline=deadline) as scope:
            state.scope = scope
            try:
                outcome = await runner.run(deadline)
            except HostExit:
                is_left = self._context.request.host is not None
                if is_left:
                    runner.left(STOPPED)
                    self.waits[state.index] = Problem(WAITING, f"step {state.name} waits in its worker")
                raise
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
                    self._steps.end(state, outcome)
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
