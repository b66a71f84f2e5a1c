"""One run, from acceptance to answer: its record, its time, its events and its end."""

from asyncio import get_running_loop

import anyio

from podium.budget.ledger import Ledger, Spend
from podium.errors import LimitExceeded, PodiumError
from podium.execution.run_context import RunContext
from podium.execution.step_state import STOPPED
from podium.journal.answer_cache import MemoryCache
from podium.policy import Policy
from podium.resume.recorder import RunRecorder
from podium.run.acquire import started, take
from podium.run.forecaster import forecast
from podium.run.listeners import Listener
from podium.run.planning import PlanRequester
from podium.run.request import ConductorSettings, RunRequest
from podium.run.rounds import Rounds
from podium.telemetry import start_trace
from podium.telemetry.log_records import start_log
from podium.types.events import AnswerDelta, Event, PlanReady, RunEnded, RunResumed, RunStopped
from podium.types.forecast import Forecast
from podium.types.messages import Message
from podium.types.outcome import Problem
from podium.types.plan import Plan
from podium.types.result import Result


class RunSession:
    """A run that is carried out."""

    def __init__(self, team: ConductorSettings, job: RunRequest, listen: Listener | None) -> None:
        self._team = team
        self._job = job
        planners = (team.planners.first, team.planners.fallback)
        self._trace = start_trace(team.name, team.workers, planners)
        self._listeners = [heard for heard in (self._trace, start_log(), listen) if heard is not None]
        own = job.journal or team.journal
        self._journal = own if job.caller is None else job.caller.journal
        self._recording: RunRecorder | None = None
        self._forecast: Forecast | None = None
        self.before: Result | None = None
        """What the run had come to before it was taken up again; `None` for a new one."""

    async def run(self) -> Result:
        """Carry it out, or return what it came to before.

        Raises:
            PodiumError: as `Conductor.run` and `Conductor.resume` say.
        """
        try:
            if self._journal is None:
                return await self._carry_out()
            names, seconds = self._team.pool.names, self._team.limits.seconds
            taken = await take(self._journal, self._job, names, seconds=seconds)
            self._job, self._recording = taken.job, taken.recording
            self.before = taken.before
            if taken.recording is None:
                assert taken.before is not None
                ended = taken.before
                self._tell(RunEnded(run_id=ended.run_id, at=ended.seconds, result=ended))
                return ended
            try:
                return await self._carry_out()
            finally:
                await taken.recording.aclose()
        finally:
            if self._trace is not None:
                self._trace.close()

    async def _carry_out(self) -> Result:
        job, recording = self._job, self._recording
        context = self.context()
        rounds = Rounds(context, self._team.planners, self._team.accept, job.step_starter)
        if recording is not None and recording.is_resumed:
            if job.caller is None:  # else the outer run has booked it, then or when it was taken up itself
                for spent in recording.spent:
                    context.ledger.charge(spent)
                context.ledger.charge(Spend(), steps=recording.steps)
            if job.plan is not None:
                recording.edit(job.plan)
            context.tell(RunResumed, workers=self._team.pool.names, recovery=recording.recovery)
        elif context.emit is not None:
            context.emit(started(job, context.pool.names))
        try:
            with anyio.CancelScope(deadline=context.ledger.deadline) as scope:
                if recording is not None:
                    recording.watch(scope.cancel)
                await rounds.run(job.plan)
        except BaseException as error:
            context.tell(RunStopped, problem=_problem_of(error))
            raise
        return await self._end(context, rounds, out_of_time=scope.cancelled_caught)

    def context(self) -> RunContext:
        """Return the run as its stages see it, beginning now."""
        team, job, clock = self._team, self._job, get_running_loop().time
        began, caller, recording = clock(), job.caller, self._recording
        depth = 0 if caller is None else caller.depth + 1
        deadline = began + team.limits.seconds
        if caller is None:
            ledger = Ledger(team.limits, deadline)
        else:
            ledger = caller.ledger.nested(team.limits, depth, deadline)
            caller.nested.append(ledger)
        return RunContext(
            run_id=job.run_id,
            query=job.query,
            pool=team.pool,
            limits=team.limits,
            ledger=ledger,
            emit=self._emit if recording is not None or self._listeners or job.forecasts else None,
            within=None if self._trace is None else self._trace.within,
            policy=self._policy(),
            labels=job.labels,
            retry=team.retry,
            on_failure=team.on_failure,
            cache=MemoryCache() if team.cache == "run" else team.cache,
            paid_results=job.paid_results
            if recording is None
            else job.paid_results or recording.paid_results,
            journal=self._journal,
            depth=depth,
            stream=job.stream,
            tools=job.tools,
            sampling=job.sampling,
            turns=job.turns,
            middleware=job.middleware if caller is None else caller.middleware,
            show_question=team.show_question and bool(job.query),
            clock=clock,
            began=began,
        )

    def _policy(self) -> Policy:
        own, caller, beside = self._team.policy, self._job.caller, self._job.policy
        if caller is not None and not caller.policy.silent:
            beside = caller.policy.everywhere
        return own if beside is None else beside & own

    def _emit(self, event: Event) -> None:
        if self._job.forecasts and isinstance(event, PlanReady) and self._forecast is None:
            self._forecast = reckon(self._team, event.plan, self._job.query)
        if self._recording is not None and event.run_id == self._job.run_id:
            self._recording.tell(event)
        self._tell(event)

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    async def _end(self, context: RunContext, rounds: Rounds, *, out_of_time: bool) -> Result:
        """Record the end, and tell it once it is durable."""
        result = self._result(context, rounds, out_of_time=out_of_time)
        ended = RunEnded(run_id=result.run_id, at=result.seconds, result=result)
        if self._recording is not None:
            result = await self._recording.finish(ended)
            ended = RunEnded(run_id=result.run_id, at=result.seconds, result=result)
        if self._job.stream and result.answer and not rounds.answer_sent:
            source = next(o for o in reversed(result.outcomes) if o.text == result.answer)
            ids = {"round": source.round, "step": source.step, "attempt": source.attempts}
            self._tell(AnswerDelta(run_id=result.run_id, at=result.seconds, **ids, text=result.answer))
        self._tell(ended)
        return result

    def _result(self, context: RunContext, rounds: Rounds, *, out_of_time: bool) -> Result:
        answer, status, problem = rounds.conclusion()
        if self._recording is not None and self._recording.is_lost:
            status, problem = ("partial" if answer else "failed"), LOST
        elif out_of_time:
            status = "partial" if status == "ok" else status
            whose = f"its {context.limits.seconds:g} s (Limits.seconds)"
            whose += " or its caller's" if context.depth else ""
            problem = Problem(LimitExceeded.code, f"the run was over {whose}")
        return Result(
            run_id=context.run_id,
            answer=answer,
            status=status,
            problem=problem,
            rounds=tuple(rounds.done),
            workers=context.pool.names,
            tool_calls=rounds.tool_calls,
            seconds=context.now(),
            forecast=self._forecast,
        )


LOST = Problem("journal", "the run was stopped, since its journal failed or someone else took it over")


def reckon(team: ConductorSettings, plan: Plan, query: tuple[Message, ...]) -> Forecast:
    """Return what carrying out a plan will take."""
    attempts, shows = team.retry.attempts, team.show_question
    return forecast(plan, team.pool, team.limits, query=query, attempts=attempts, show_question=shows)


async def plan_only(team: ConductorSettings, job: RunRequest) -> tuple[PlanRequester, Plan | None]:
    """Make the first round's plan, and run nothing.

    Raises:
        LimitExceeded: there was none within the time of a run.
    """
    context = RunSession(team, job, None).context()
    planning, plan = PlanRequester(context, team.planners, 1), None
    with anyio.CancelScope(deadline=context.ledger.deadline) as scope:
        plan = await planning.make()
    if scope.cancelled_caught:
        message = f"there was no plan within {team.limits.seconds:g} s: raise Limits.seconds"
        raise LimitExceeded("seconds", message)
    return planning, plan


def _problem_of(error: BaseException) -> Problem:
    if isinstance(error, PodiumError):
        return Problem.of(error)
    if isinstance(error, Exception):
        return Problem("crashed", f"{type(error).__name__} was raised")
    return STOPPED
