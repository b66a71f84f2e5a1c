"""Executes one run, from request to result: its record, its time limit, its events and its end."""

import logging
from asyncio import get_running_loop
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import anyio

from podium.budget.ledger import Ledger
from podium.budget.limits import Spend
from podium.errors import (
    ConfigError,
    JournalError,
    LimitExceeded,
    ListenerFailed,
    PlannerError,
    PodiumError,
    RunFailed,
)
from podium.execution.context import ConductorSettings, RunContext, RunRequest, WorkerRun, outer_run
from podium.execution.fit import is_metered
from podium.execution.node import STOPPED
from podium.journal.cache import MemoryCache
from podium.journal.journal import Head
from podium.policy.rules import answer_key
from podium.run.acquire import acquire, recall_calls, started
from podium.run.forecast import forecast_plan
from podium.run.planning import CODES, PlanRequester, planned_by
from podium.run.request import policy_of, with_labels_of_conversation
from podium.run.rounds import Rounds
from podium.run_state.actions import ActionLog
from podium.run_state.paid import Exchange, PaidResults
from podium.run_state.recorder import RunRecorder
from podium.secrets import BUGS, add_place, scrub_error
from podium.telemetry.observers import observed, start_log, start_trace
from podium.types.events import (
    AnswerDelta,
    Event,
    NestedRunEnded,
    PlanReady,
    RunEnded,
    RunResumed,
    RunStopped,
)
from podium.types.explain import explain_proposal, spent
from podium.types.forecast import Forecast
from podium.types.outcome import Outcome, Problem, Proposal, tell_actions, totals
from podium.types.plan import Plan
from podium.types.result import Result, answer_outcome

Listener = Callable[[Event], None]
"""A callback that gets the events of a run as they happen."""
LOST = Problem("journal", "the run was stopped: its journal failed, or another process took over the run")


class RunSession:
    """The execution of one run."""

    def __init__(self, settings: ConductorSettings, request: RunRequest, listen: Listener | None) -> None:
        self._settings = settings if request.limits is None else replace(settings, limits=request.limits)
        self._request = request
        self._policy = policy_of(settings, request)
        self._outer = outer_run(request.caller or request.within)
        self._trace = start_trace(settings.name, settings.workers, settings.planners)
        hosts = [] if request.host is None else [request.host.hear]
        listeners = [*hosts, *([] if listen is None else [listen])]
        self._listeners = [*observed(self._trace, start_log()), *listeners]
        self._raised: Exception | None = None
        """The exception of a listener, which is not called again."""
        own = request.journal or settings.journal
        answers = outer_run(request.caller)
        self._journal = own if answers is None else answers.context.journal
        self._recorder: RunRecorder | None = None
        self._scope = anyio.CancelScope()
        """The scope of the rounds; start and end of the run are outside."""
        self._forecast: Forecast | None = None
        self._head: Head | None = None
        self._context: RunContext | None = None
        """The context of the run; `None` until it starts."""
        self._status: str = "stopped"
        self._cause: BaseException | None = None
        """The error of the planner, if the run has no plan."""
        self.before: Result | None = None
        """The result of the run before it was resumed; `None` for a new run."""

    async def run(self) -> Result:
        """Execute the run, or return its recorded result if it has ended."""
        if self._journal is None and self._request.caller is None:
            if self._policy.waits:
                told = "a policy that makes plans or actions wait for approval needs a journal: set journal"
                raise ConfigError(told)
            if (person := self._settings.pool.waits_for) is not None:
                told = f"worker {person!r} is a person, and there is no journal in which the run can wait"
                raise ConfigError(f"{told}: set journal")
        with self._within_call():
            result = await self._run()
            self._tell_call(result)
        self._context = None  # it refers to the session: a run leaves no cycles
        self._raise_unplanned(result)
        self._raise_for_listener(result)
        return result

    @contextmanager
    def _within_call(self) -> Iterator[None]:
        """Return a context manager, which ends with the worker's call if a worker's code started the run."""
        call = outer_run(self._request.within)
        if call is None:
            yield
            return
        with call.runs.entered():
            try:
                yield
            finally:
                if self._context is not None:
                    run_id, ledger = self._request.run_id, self._context.ledger
                    steps = ledger.steps - (0 if self._recorder is None else self._recorder.steps)
                    actions = self._context.actions.actions
                    call.ended.append(WorkerRun(run_id, self._status, ledger.added.calls, steps, actions))

    def _tell_call(self, result: Result) -> None:
        """If a worker's code started the run, record the end of the run in the call of this worker."""
        call = outer_run(self._request.within)
        if call is None or self._context is None:
            return
        self._status = result.status
        if result.status in ("ok", "partial"):
            call.answered.append(self._context.ledger)
        if result.problem is not None:
            call.gaps.append(f"{result.status}: {result.problem.message}")

    async def _run(self) -> Result:
        await self._read_conversation()
        try:
            if self._journal is None:
                return await self._carry_out()
            acquired = await acquire(self._journal, self._request, self._settings)
            self._request, self._recorder, self.before = acquired.request, acquired.recorder, acquired.before
            if acquired.recorder is None:
                assert acquired.before is not None
                self._head = acquired.head
                self._tell(self._ended(acquired.before))
                return acquired.before
            if self._request.limits is None:
                limits = self._settings.limits.keeping(acquired.limits)
                self._settings = replace(self._settings, limits=limits)
            paid, begun = acquired.recorder.paid_results, acquired.limits
            paid.allows_more = begun is not None and self._settings.limits.allow_more_than(begun)
            listen = self._tell if self._listeners else None
            async with acquired.recorder.opened(listen, self._scope.cancel):
                return await self._carry_out()
        finally:
            if self._trace is not None:
                self._trace.close()
            self._link_to_outer(self._head if self._recorder is None else self._recorder.head)

    async def _read_conversation(self) -> None:
        """Add the labels of the conversation to the request."""
        pool, journal = self._settings.pool, self._journal
        self._request = await with_labels_of_conversation(self._request, pool, journal, self._policy)

    async def plan_only(self) -> Plan:
        """Return the first round's plan, or the given plan, without running it."""
        if self._request.plan is not None:
            return self._request.plan
        if self._settings.planner.rounds is not None:
            told = f"planner {self._settings.planner.name!r} speaks turn by turn"
            raise ConfigError(f"{told}, so there is no plan before the run: run the question")
        await self._read_conversation()
        context = self._begin()
        planning, limit = PlanRequester(context, 1), context.settings.limits.seconds
        with self._within_call(), anyio.CancelScope(deadline=context.ledger.deadline):
            try:
                plan = await planning.make()
            except PlannerError as error:
                raise self._unplanned(Problem.of(error), planning.proposals) from error.__cause__
            self._status = "ok"
            why = "\n".join(map(explain_proposal, planning.proposals))
            return replace(plan, query=self._request.query, why=why, planner=planned_by(planning.proposals))
        late = Problem("planner_limit", f"there was no plan within {limit:g} s: raise Limits.seconds")
        raise self._unplanned(late, planning.proposals)

    def _link_to_outer(self, head: Head | None) -> None:
        """Emit `NestedRunEnded` in the outer run, so that its hash chain covers this run."""
        caller, outer = self._request.caller, self._outer
        if caller is None or outer is None or head is None:
            return
        ids = {"round": caller.round, "step": caller.step, "attempt": caller.attempt}
        nested = {"nested": self._request.run_id, "records": head.records, "hash": head.hash}
        outer.context.tell(NestedRunEnded, **ids, **nested)

    async def _carry_out(self) -> Result:
        request, recorder = self._request, self._recorder
        context = self._begin()
        is_forecast = request.forecast or context.policy.approvers_of("plans")
        if self._journal is not None and (is_forecast or is_metered(context)):
            await recall_calls(self._journal, context.settings.pool)
        rounds = Rounds(context)
        if recorder is not None and recorder.is_resumed:
            if request.caller is None:  # the outer run has counted the spending of a nested run
                for spent in recorder.spent:
                    context.ledger.charge(spent)
                context.ledger.charge(Spend(), steps=recorder.steps)
            recorder.note_lengths(context.overlong, context.settings.pool.cards)
            if request.plan is not None:
                recorder.edit(request.plan)
            facts = {"recovery": recorder.recovery, "limits": request.limits}
            context.tell(RunResumed, workers=context.settings.pool.names, **facts)
        elif context.emit is not None:
            context.emit(started(request, context.settings))
        self._scope.deadline = context.ledger.deadline
        try:
            with self._scope:
                await rounds.run(request.plan)
            if isinstance(self._raised, BUGS):
                raise self._raised  # noqa: TRY301 - recorded below
        except BaseException as error:  # cancellations are recorded as well
            context.tell(RunStopped, problem=_problem_of(error))
            tell_actions(error, context.actions.actions)
            raise
        self._cause = rounds.cause
        return await self._end(context, rounds, out_of_time=self._scope.cancelled_caught)

    def _begin(self) -> RunContext:
        """Return the context of the run, which starts now; a resumed run continues its recorded time."""
        settings, request, recorder, outer = self._settings, self._request, self._recorder, self._outer
        clock = get_running_loop().time
        now = clock()
        ledger, depth = Ledger(settings.limits, now + settings.limits.seconds, allows=request.allows), 0
        if outer is not None:
            depth = outer.context.depth + 1
            ledger = outer.context.ledger.nested(settings.limits, depth, ledger.deadline)
            ledger.allows = request.allows
            outer.ledgers.append(ledger)
            caller = request.caller or request.within
            actions = ActionLog(request.run_id, outer=outer.context.actions, caller=caller)
            outer.actions.append(actions)
            if outer.reservation is not None:
                outer.context.ledger.release(outer.reservation)
        paid_results = request.paid_results or PaidResults()
        if recorder is not None and recorder.is_resumed:
            before, paid_results = paid_results, recorder.paid_results
            paid_results.continue_from(before)
        if outer is None:
            how = None if request.host is None else request.host.remedy
            workers, known = settings.pool.workers, paid_results.actions
            actions = ActionLog(request.run_id, workers, recorded=known, remedy=how)
        is_heard = recorder is not None or self._listeners or request.forecast
        self._context = RunContext(
            settings=settings,
            request=request,
            ledger=ledger,
            policy=self._policy,
            labels=request.labels,
            journal=self._journal,
            cache=MemoryCache()
            if settings.cache == "run"
            else settings.cache
            if request.uses_cache
            else None,
            paid_results=paid_results,
            exchange=Exchange(request.tool_messages, paid_results.called, request.query),
            actions=actions,
            depth=depth,
            emit=self._emit if is_heard else None,
            recorded=None if recorder is None else self._recorded,
            span=None if self._trace is None else self._trace.within,
            clock=clock,
            began=now if recorder is None else now - recorder.seconds,
        )
        return self._context

    def _emit(self, event: Event) -> None:
        asked, is_turn = self._request, self._settings.planner.rounds is not None
        if (
            asked.forecast
            and isinstance(event, PlanReady)
            and event.plan.steps
            and not self._forecast
            and (asked.plan is not None or not is_turn)  # the plan of a turn says nothing about the next one
        ):
            plan = event.plan
            self._forecast = forecast_plan(self._settings, plan, asked.query or plan.query, asked.context)
        if self._recorder is None:
            self._tell(event)
        else:
            self._recorder.tell(event)

    async def _recorded(self) -> None:
        """Wait until every event so far is recorded; if that fails, stop the run."""
        assert self._recorder is not None
        try:
            await self._recorder.flush()
        except JournalError:
            self._scope.cancel()
            await anyio.sleep_forever()  # until the cancellation arrives

    def _tell(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception as error:  # code of the user; raised when the run has ended
                scrub_error(error)
                self._listeners.remove(listener)
                self._raised = error
                if isinstance(error, BUGS):
                    add_place(error, event.run_id, "`on_event`")
                    self._scope.cancel()
                else:
                    logging.getLogger("podium").exception("the event callback of run %s raised", event.run_id)

    def _raise_for_listener(self, result: Result) -> None:
        """Raise what a listener raised in a run that has ended, if it raised anything."""
        raised = self._raised
        if isinstance(raised, BUGS):
            tell_actions(raised, result.actions)
            raise raised
        if raised is not None:
            failed = ListenerFailed(f"on_event raised {type(raised).__name__}: the run continued without it")
            failed.result, failed.actions = result, result.actions
            raise failed from raised

    def _raise_unplanned(self, result: Result) -> None:
        """Raise `PlannerError` if a run has no answer because its first round has no plan."""
        problem = result.problem
        is_planned = any(current.plan is not None for current in result.rounds)
        if problem is not None and problem.code in CODES and result.status == "failed" and not is_planned:
            error = self._unplanned(problem, result.proposals, result.outcomes)
            error.actions = result.actions
            raise error from self._cause

    def _unplanned(
        self, problem: Problem, calls: Sequence[Proposal], outcomes: Sequence[Outcome] = ()
    ) -> PlannerError:
        """Return the error of a run without a plan, with what its calls and early steps have spent."""
        bill, run_id = totals((*calls, *outcomes)), self._request.run_id
        usage, cost = bill["usage"], bill["cost"]
        return PlannerError(
            f"run {run_id}: {problem.message}; the run used {spent(usage, cost)}",
            code=next(code for code in CODES if code == problem.code),
            run_id=run_id,
            calls=calls,
            usage=usage,
            cost=cost,
        )

    async def _end(self, context: RunContext, rounds: Rounds, *, out_of_time: bool) -> Result:
        """Record the end of the run, and emit it after it is durable."""
        result = self._result(context, rounds, out_of_time=out_of_time)
        ended = self._ended(result)
        if self._recorder is not None:
            result = await self._recorder.finish(ended)
            ended = self._ended(result)
        source = answer_outcome(result.rounds) if self._request.stream and result.answer else None
        if source is not None and source.round != rounds.answer_sent:
            ids = {"round": source.round, "step": source.step, "attempt": source.attempts}
            self._tell(AnswerDelta(run_id=result.run_id, at=result.seconds, **ids, text=result.answer))
        self._tell(ended)
        return result

    def _ended(self, result: Result) -> RunEnded:
        """Return the event for the end of the run, and keep the labels of its answer."""
        ended = RunEnded.of(result)
        if self._request.caller is not None:
            return ended
        asker = self._request.asker
        if key := answer_key(asker, result.answer, result.tool_calls):
            self._settings.pool.answers.keep(key, result.labels, asker, result.answer)
        return replace(ended, answer_key=key)

    def _result(self, context: RunContext, rounds: Rounds, *, out_of_time: bool) -> Result:
        answer, status, problem = rounds.conclusion()
        if self._recorder is not None and self._recorder.is_lost:
            status, problem = ("partial" if answer else "failed"), LOST
        elif out_of_time:
            status = "partial" if status == "ok" else status
            limit = f"its {context.settings.limits.seconds:g} s (Limits.seconds)"
            limit += " or the limit of its outer run" if context.depth else ""
            problem = Problem(LimitExceeded.code, f"the run exceeded {limit}")
            if all(current.plan is None for current in rounds.done):
                problem = Problem("planner_limit", f"there is no plan: {problem.message}")
        return Result(
            run_id=context.request.run_id,
            answer=answer,
            status=status,
            problem=problem,
            rounds=tuple(rounds.done),
            workers=context.settings.pool.names,
            tool_calls=rounds.calls.made,
            actions=context.actions.actions,
            labels=rounds.answer_labels,
            seconds=context.now(),
            forecast=self._forecast,
        )


def _problem_of(error: BaseException) -> Problem:
    if isinstance(error, PodiumError):
        return Problem.of(error)
    if isinstance(error, Exception):
        return Problem("crashed", f"{type(error).__name__} was raised")
    return STOPPED


class StreamedAnswer:
    """The text of an answer that is streamed in pieces.

    A retried step writes its text again, from the beginning. If the new text begins with the text that was
    already streamed, the rest of it is streamed. If the new text differs, nothing more is streamed.
    """

    def __init__(self) -> None:
        self.text = ""
        """The text that was streamed."""
        self._again: str | None = None
        """The text of the current attempt, while it repeats text that was already streamed; otherwise `None`.
        """
        self._attempt: tuple[int | None, int | None, int | None] | None = None

    def add(self, event: AnswerDelta) -> str:
        """Return the text to stream for an event; empty if there is none."""
        attempt = (event.round, event.step, event.attempt)
        if self._attempt not in (None, attempt):
            self._again = ""
        self._attempt = attempt
        if self._again is None:
            self.text += event.text
            return event.text
        self._again += event.text
        if not self._again.startswith(self.text):
            return ""
        new, self.text, self._again = self._again[len(self.text) :], self._again, None
        return new

    def rest(self, result: Result) -> str:
        """Return the text of the answer that was not streamed yet.

        Raises:
            RunFailed: the answer differs from the streamed text.
        """
        if not result.answer.startswith(self.text):
            told = "the answer differs from the streamed text: see the error's result"
            error = RunFailed(f"run {result.run_id}: {told}")
            error.result, error.actions = result, result.actions
            raise error
        return result.answer[len(self.text) :]
