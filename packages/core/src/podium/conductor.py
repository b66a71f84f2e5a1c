"""The conductor: the face that users hold. It plans a query and runs the plan over a pool of workers."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from podium.aio.event_stream import events_of
from podium.aio.per_loop import LoopLocal
from podium.aio.resources import ResourceGroup
from podium.aio.sync import run_sync
from podium.budget.limits import Limits
from podium.budget.spend import Spend
from podium.errors import ConfigError, PlannerError, WorkerFailed
from podium.execution.retry_policy import OnFailure, Retry
from podium.execution.run_context import Accept, ConductorSettings, RunRequest, outer_run
from podium.execution.step_starter import StepStarter
from podium.journal.answer_cache import Cache
from podium.journal.journal import Journal
from podium.planners.direct import DirectPlanner
from podium.planners.planner import Planner
from podium.planners.rule import RulePlanner
from podium.policy import Policy
from podium.run.approval import decide
from podium.run.forecaster import forecast_plan
from podium.run.listeners import Listener, with_listener
from podium.run.planning import PlanRequester
from podium.run.request import RunOptions, journal_of, nested_request, new_request
from podium.run.runner import RunSession
from podium.types.events import AnswerDelta, ApprovalGiven, Event, RunEnded
from podium.types.explain import explain_proposal
from podium.types.forecast import Forecast
from podium.types.messages import Completion, Query
from podium.types.plan import Plan
from podium.types.result import Result
from podium.workers.pool import Pool
from podium.workers.worker import CallMiddleware, Card, Request, Worker
from podium.workers.worst_case import check_prices


class Conductor(Worker):
    """Answers queries by planning them and having a pool of workers carry the plans out.

    Used as an async context manager it keeps connections open from run to run; otherwise
    each run opens and closes them. One conductor may have any number of runs at once. It
    is a worker itself: in another's pool it plans and runs what it is given as subtask,
    within that run's limits.

    Args:
        planner: who writes the plans.
        pool: who carries them out.
        limits: what a run may spend.
        fallback: who plans when `planner` gave no usable plan after one repair; `None`
            means a `RulePlanner`.
        strict: raise what is wrong with a plan in place of repairing and falling back.
        direct: let a short question without parts go to one worker with no planner call.
        accept: judges each round's answer; while it is not accepted, another round is
            planned, up to `Limits.rounds`. `None` accepts all.
        policy: what plans may do; `None` allows everything.
        retry: which failed calls are made again; `None` means as `Retry` has it.
        on_failure: what becomes of the steps that are shown one that failed.
        cache: answers of earlier calls to use again, over all runs it is given to; `run` uses
            those of the same run; `None` asks for all of them.
        journal: where runs are recorded, to be resumed and audited; `None` records none.
        show_question: whether workers are shown the question besides their subtask.
        card: what a pool this conductor is put into says of it.

    Raises:
        ConfigError: the planner is none, or the pool has no workers, or two of one name.
    """

    takes_tools = True

    def __init__(  # noqa: PLR0913 - one record of these would only be spelled out at every use
        self,
        planner: Planner,
        pool: Pool | Sequence[Worker],
        *,
        limits: Limits | None = None,
        fallback: Planner | None = None,
        strict: bool = False,
        direct: bool = False,
        accept: Accept | None = None,
        policy: Policy | None = None,
        retry: Retry | None = None,
        on_failure: OnFailure = "skip",
        cache: Cache | Literal["run"] | None = None,
        journal: Journal | None = None,
        show_question: bool = True,
        card: Card | None = None,
    ) -> None:
        _check_planner(planner)
        self.planner = planner
        self.pool = pool if isinstance(pool, Pool) else Pool(pool)
        self.limits = limits or Limits()
        self.journal = journal
        self.policy = policy or Policy()
        first = DirectPlanner(planner) if direct else planner
        own = card or Card(name="conductor", description="Plans a task and has a team carry it out.")
        self.card = replace(own, labels=own.labels.union(*(other.labels for other in self.pool.cards)))
        self._settings = ConductorSettings(
            name=own.name,
            pool=self.pool,
            planner=first,
            fallback=fallback or RulePlanner(),
            strict=strict,
            limits=self.limits,
            accept=accept,
            policy=self.policy,
            retry=retry or Retry(),
            on_failure=on_failure,
            cache=cache,
            journal=journal,
            show_question=show_question,
        )
        _check_settings(self._settings)
        self._entries = LoopLocal(int)

    async def plan(self, query: Query, *, labels: Iterable[str] = (), policy: Policy | None = None) -> Plan:
        """Plan `query` and run nothing. Run the plan by giving it to `run` or `stream`.

        Args:
            query: the question, or a conversation.
            labels: properties of the query that the policy's rules refer to.
            policy: holds beside the conductor's own; `None` adds nothing.

        Raises:
            QueryError: the query is not one.
            PlannerError: neither the planner nor the fallback gave a usable plan.
            LimitExceeded: there was none within `Limits.seconds`.
            PodiumError: what is wrong with the planner's text, with `strict`.
        """
        request = new_request(self._settings, query, stream=False, labels=labels, policy=policy)
        async with self._open():
            planning, plan = await RunSession(self._settings, request, None).plan_only()
        if plan is None:
            raise PlannerError(f"nobody gave a usable plan: {_problems_of(planning)}")
        return Plan(plan.steps, request.query, "\n".join(map(explain_proposal, planning.proposals)))

    async def run(
        self, asked: Query | Plan, *, on_event: Listener | None = None, **options: Unpack[RunOptions]
    ) -> Result:
        """Answer a query, or carry out a plan.

        A worker that fails does not raise: the result says what is missing and why.

        Args:
            asked: a question, a conversation, or a plan. A conversation may go on after its
                question with calls of tools and what they returned, which are shown to the
                worker of the plan's last step.
            on_event: takes each event as it happens, as `stream` yields them.
            options: what else is to be said of the run: see `podium.run.options.Options`.

        Raises:
            QueryError: the query is not one.
            PlanInvalid: the plan given does not fit the pool or the limits.
            PlanForbidden: the policy does not allow the plan given.
            RunExists: the journal holds another run of this id.
            JournalError: the run cannot be recorded; one that was carried out is in `result`.
            ListenerFailed: `on_event` raised; what the run came to is in `result`.
            PodiumError: what is wrong with the planner's text, with `strict`.
        """
        request = new_request(self._settings, asked, stream=on_event is not None, **options)
        return await with_listener(on_event, lambda listen: self._run(request, listen))

    def stream(self, asked: Query | Plan, **options: Unpack[RunOptions]) -> AsyncGenerator[Event, None]:
        """Do as `run`, and yield what happens; the last event is `RunEnded` with the result.

        Leaving the iteration cancels the run. Takes and raises what `run` does.
        """

        async def run(emit: Listener) -> Result:
            return await self._run(new_request(self._settings, asked, stream=True, **options), emit)

        return events_of(run)

    def forecast(self, plan: Plan) -> Forecast:
        """Return what carrying out a plan will take: calls, tokens, USD and seconds.

        It is reckoned from what the workers took lately, and from general experience where
        they have done too little.

        Raises:
            PlanInvalid: the plan does not fit the pool or the limits.
        """
        self._check(plan)
        return forecast_plan(self._settings, plan, plan.query)

    def run_sync(self, asked: Query | Plan, **options: Unpack[RunOptions]) -> Result:
        """Do as `run` from code that is not async, inside a running event loop too."""
        return run_sync(lambda: self.run(asked, **options))

    async def resume(  # noqa: PLR0913 - as `run`
        self,
        run_id: str,
        *,
        plan: Plan | None = None,
        policy: Policy | None = None,
        force: bool = False,
        journal: Journal | None = None,
        middleware: CallMiddleware | None = None,
        step_starter: StepStarter | None = None,
        on_event: Listener | None = None,
    ) -> Result:
        """Go on with a recorded run: after a crash, a cancel, a failure or an approval.

        What was delivered and recorded is not paid for again. Steps that failed in the
        last round are tried once more. The run has the whole of `Limits.seconds` again;
        what it spent before counts against all other limits.

        Args:
            run_id: the run's id.
            plan: goes on in place of the last round's plan; steps that are the same, with the
                same to see, keep their outputs. `None` changes nothing.
            policy: as for `run`; it is not recorded, so give the one the run was begun with.
            force: go on with a run that was given up as dead, too.
            journal: as for `run`.
            middleware: as for `run`.
            step_starter: as for `run`.
            on_event: as for `run`.

        Raises:
            ConfigError: the conductor has no journal, or the pool lacks a worker of the plan.
            RunUnknown: the journal holds no such run.
            RunHeld: someone carries it out.
            RunDead: it was taken up too often after its process had died.
            PodiumError: as for `run`.
        """
        journal_of(self._settings, journal)
        if plan is not None:
            self._check(plan)
        request = RunRequest(
            run_id=run_id,
            plan=plan,
            policy=policy,
            resumes=True,
            force=force,
            journal=journal,
            middleware=middleware,
            step_starter=step_starter,
            stream=on_event is not None,
        )
        return await with_listener(on_event, lambda listen: self._run(request, listen))

    async def decide(
        self,
        run_id: str,
        *,
        approved: bool,
        plan: Plan | None = None,
        by: str = "",
        why: str = "",
        journal: Journal | None = None,
    ) -> None:
        """Record what someone says of the plan of a run that waits; `resume` then goes on with it.

        Args:
            run_id: the run's id.
            approved: whether the plan may be carried out.
            plan: the plan as they changed it; `None` takes it as it is.
            by: who decided.
            why: for what reason.
            journal: where the run waits, if that is not the conductor's own journal.

        Raises:
            ConfigError: the conductor has no journal, or the run waits for nothing.
            RunUnknown: the journal holds no such run.
            RunHeld: someone carries it out.
            PlanForbidden: the policy does not allow the changed plan.
        """
        journal = journal_of(self._settings, journal)
        if plan is not None:
            self._check(plan)
        async with self._open(), journal:
            given = ApprovalGiven(
                run_id=run_id, at=0.0, round=0, approved=approved, plan=plan, by=by, why=why
            )
            await decide(journal, given, self.pool.names, self._verify)

    def _verify(self, plan: Plan, labels: frozenset[str]) -> None:
        self._settings.policy.verify(plan, self.pool.cards, labels)

    def worst_case(self, request: Request, answer_tokens: int) -> Spend | None:
        """Return `None` within a run, whose ledger the nested run's calls are booked in."""
        return None if request.caller is not None else super().worst_case(request, answer_tokens)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Answer as a worker of another run, within that run's limits and under its policy.

        Raises:
            LimitExceeded: the runs would nest deeper than `Limits.depth`.
            WorkerFailed: the run came to no answer.
        """
        nested, outer = nested_request(self._settings, request), outer_run(request.caller)
        result: Result | None = None
        sessions: list[RunSession] = []

        async def run(emit: Listener) -> Result:
            def listen(event: Event) -> None:
                if outer is not None and outer.context.emit is not None:
                    outer.context.emit(event)  # at once, so that the end of a cancelled run is emitted, too
                if event.run_id == nested.run_id:
                    emit(event)

            sessions.append(RunSession(self._settings, nested, listen))
            async with self._open():
                return await sessions[0].run()

        async with aclosing(events_of(run)) as events:
            async for event in events:
                if isinstance(event, RunEnded):
                    result = event.result
                elif isinstance(event, AnswerDelta):
                    yield event.text
        yield _completion(result, sessions[0].before)

    async def _run(self, request: RunRequest, listen: Listener | None) -> Result:
        async with self._open(), request.journal or nullcontext():
            return await RunSession(self._settings, request, listen).run()

    def _check(self, plan: Plan) -> None:
        plan.fit(len(self.pool), self.limits.plan_steps)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._entries.set(self._entries.get() + 1)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entries.set(self._entries.get() - 1)
        await super().__aexit__(kind, error, traceback)

    def _open(self) -> AbstractAsyncContextManager[object]:
        """Return what keeps everything open during a run: nothing, where the caller does."""
        # Its own parts, and not itself: a run that ends closes nothing under another one.
        return nullcontext() if self._entries.get() else _Parts(self._parts())

    def _parts(self) -> tuple[AbstractAsyncContextManager[Any], ...]:
        settings = self._settings
        own = (settings.accept, settings.cache, settings.journal)
        own_parts = [part for part in own if isinstance(part, ResourceGroup)]
        return (self.pool, settings.planner, settings.fallback, *own_parts)


class _Parts(ResourceGroup):
    """What a run holds open for itself."""

    def __init__(self, parts: Sequence[AbstractAsyncContextManager[Any]]) -> None:
        self._held = parts

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return self._held


def _problems_of(planning: PlanRequester) -> str:
    problems = [p.problem.message for p in planning.proposals if p.problem is not None]
    return "; ".join(problems)


def _completion(result: Result | None, before: Result | None) -> Completion:
    """Return a nested run's answer, or raise for its having none.

    What the run had spent before it was taken up is billed to the call that it answered then.
    """
    usage, cost = (None, None) if result is None else (result.usage, result.cost)
    if before is not None and usage is not None:
        usage -= before.usage
        cost = None if cost is None or before.cost is None else max(cost - before.cost, 0.0)
    has_answer = result is not None and (result.answer or result.tool_calls)
    if result is None or usage is None or not has_answer or result.status in ("failed", "waiting"):
        problem = None if result is None else result.problem
        told = "no answer" if problem is None else problem.message
        message = f"the nested run came to nothing: {told}"
        raise WorkerFailed(message, maybe_paid=True, usage=usage, cost=cost)
    missing = None if result.problem is None else result.problem.message
    return Completion(result.answer, usage=usage, cost=cost, missing=missing, tool_calls=result.tool_calls)


def _check_planner(planner: object) -> None:
    if not isinstance(planner, Planner):
        hint = ": wrap it in a ChatPlanner" if isinstance(planner, Worker) else ""
        raise ConfigError(f"{planner!r:.80} is no planner{hint}")


def _check_settings(settings: ConductorSettings) -> None:
    """Raise `ConfigError` for settings that would stop a run half-way."""
    own = [worker.card for worker in settings.pool if not isinstance(worker, Conductor)]
    check_prices(settings.limits, [*own, settings.planner.card, settings.fallback.card])
    settings.retry.check(settings.pool)
    settings.policy.fit(settings.pool.cards)
    if settings.policy.waits and settings.journal is None:
        raise ConfigError("a policy that lets plans wait for approval needs a journal for them to wait in")
    if settings.on_failure == "replan" and settings.limits.rounds < 2:
        raise ConfigError("on_failure='replan' needs another round to plan: set Limits.rounds to 2 or more")
