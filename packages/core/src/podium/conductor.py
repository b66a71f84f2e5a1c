"""The conductor: the face that users hold. It plans a query and runs the plan over a pool of workers."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, NoReturn, Self, Unpack, get_args

from podium.aio.event_stream import events_of
from podium.aio.per_loop import LoopLocal
from podium.aio.resources import ResourceGroup
from podium.aio.sync import run_sync
from podium.budget.limits import Limits
from podium.budget.spend import Spend
from podium.errors import ConfigError
from podium.execution.external_scheduler import StepStarter
from podium.execution.retry_policy import OnFailure, Retry
from podium.execution.run_context import Accept, ConductorSettings, RunRequest
from podium.journal.answer_cache import Cache
from podium.journal.journal import Journal
from podium.planners.direct import DirectPlanner
from podium.planners.planner import Planner
from podium.policy import Policy
from podium.run.approval import decide
from podium.run.forecaster import forecast_plan
from podium.run.listeners import Listener, with_listener
from podium.run.nested import run_nested
from podium.run.request import RunOptions, journal_of, new_request, within_call
from podium.run.runner import RunSession
from podium.secrets import scrub
from podium.types.events import ApprovalGiven, Event
from podium.types.forecast import Forecast
from podium.types.messages import Completion, Query
from podium.types.plan import Plan
from podium.types.result import Result
from podium.workers.pool import Pool
from podium.workers.worker import CallMiddleware, Card, Request, Worker
from podium.workers.worst_case import check_prices


class Conductor(Worker):
    """Answers queries by planning them and having a pool of workers carry the plans out.

    As an async context manager a conductor keeps connections open from run to run;
    otherwise each run opens and closes them. One conductor may have any number of runs at
    once. A conductor is a worker, too: in the pool of another conductor it plans and runs the
    subtask, within the limits of the outer run.

    Args:
        planner: writes the plans.
        pool: the workers that carry the plans out.
        limits: what a run may spend.
        fallback_planner: plans when `planner` gave no plan after the retries and one repair; the
            result is then `partial`. `None` has the run fail with `PlannerError`.
        direct: send a short question without parts to one worker, with no planner call.
        accept: judges each round's answer; while it is not accepted, another round is
            planned, up to `Limits.rounds`. `None` accepts all.
        policy: what plans may do; `None` allows everything.
        retry: which failed calls are retried; by default as in `Retry()`.
        on_failure: what happens when a step has failed: see `podium.execution.OnFailure`.
        cache: answers of earlier calls that are used again: of all runs that share the cache,
            or of the same run with `"run"`; `None` uses none.
        journal: records runs, so that they can be resumed and audited; `None` records none.
        show_question: whether workers are shown the question besides their subtask.
        card: describes this conductor in the pool of another one.

    Raises:
        ConfigError: `planner` is not a planner, or the pool is empty or has two workers of one name.
    """

    takes_texts = True
    takes_tools = True

    def __init__(  # noqa: PLR0913 - one record of these would only be spelled out at every use
        self,
        planner: Planner,
        pool: Pool | Sequence[Worker],
        *,
        limits: Limits | None = None,
        fallback_planner: Planner | None = None,
        direct: bool = False,
        accept: Accept | None = None,
        policy: Policy | None = None,
        retry: Retry | None = None,
        on_failure: OnFailure = "note",
        cache: Cache | Literal["run"] | None = None,
        journal: Journal | None = None,
        show_question: bool = True,
        card: Card | None = None,
    ) -> None:
        _check_planner(planner)
        if fallback_planner is not None:
            _check_planner(fallback_planner)
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
            fallback_planner=fallback_planner,
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
        self.is_interruptible = any(worker.is_interruptible for worker in self.pool)
        self._entries = LoopLocal(int)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "a Conductor cannot be copied or pickled: it has connections, locks and limits of this process. "
            "Share it, or make another with the same arguments where you need it"
        )

    async def plan(
        self,
        query: Query,
        *,
        context: Mapping[str, str] | None = None,
        labels: Iterable[str] = (),
        policy: Policy | None = None,
    ) -> Plan:
        """Plan a query and run nothing. `run` and `stream` take the plan.

        Args:
            query: the question, or a conversation.
            context: named texts that the plan may refer to; give them to `run`, too. `None` means none.
            labels: properties of the query that the policy's rules refer to.
            policy: holds besides the conductor's policy; `None` adds nothing.

        Raises:
            QueryError: the query is empty or malformed.
            PlannerError: no planner wrote a plan that can be used, or none within `Limits.seconds`.
        """
        request = new_request(
            self._settings, query, stream=False, context=context or {}, labels=labels, policy=policy
        )
        async with self._open():
            return await RunSession(self._settings, request, None).plan_only()

    async def run(
        self, asked: Query | Plan, *, on_event: Listener | None = None, **options: Unpack[RunOptions]
    ) -> Result:
        """Answer a query, or carry out a plan.

        A failed worker does not raise, unless for a mistake in its code: the result says what is
        missing and why.

        Args:
            asked: a question, a conversation, or a plan. The question of a conversation is the
                user's last message; see `podium.types.read_conversation`. Tool calls after it, with
                their results, are shown to the worker of the plan's last step.
            on_event: takes each event as it happens, as `stream` yields them.
            options: see `podium.run.RunOptions`.

        Raises:
            QueryError: the query is empty or malformed.
            PlanInvalid: the given plan does not fit the pool or the limits.
            PlanForbidden: the policy does not allow the given plan.
            PlannerError: there is no plan, so that nothing can be answered; with a journal the run
                can be resumed, which asks the planner anew.
            RunExists: the journal holds another run of this id.
            JournalError: the run cannot be recorded; its `result` is set if the run was carried out.
            ListenerFailed: `on_event` raised; its `result` is the run's.
            TypeError: or `AttributeError`, `NameError`, `ImportError`: a mistake in the code of the
                caller's own worker, planner or callback, as it was raised.
        """
        request = new_request(self._settings, asked, stream=on_event is not None, **options)
        return await with_listener(on_event, lambda listen: self._run(request, listen))

    def stream(self, asked: Query | Plan, **options: Unpack[RunOptions]) -> AsyncGenerator[Event, None]:
        """Do as `run`, and yield the events; the last one is `RunEnded` with the result.

        Leaving the iteration cancels the run. Arguments and exceptions are those of `run`.
        """

        async def run(emit: Listener) -> Result:
            return await self._run(new_request(self._settings, asked, stream=True, **options), emit)

        return events_of(run)

    def forecast(self, plan: Plan, *, context: Mapping[str, str] | None = None) -> Forecast:
        """Return what a plan will probably take: calls, tokens, USD and seconds.

        The forecast is made from the latest calls of the workers, and from assumptions where
        they have made too few.

        Args:
            plan: the plan.
            context: the named texts that its steps refer to; `None` means none.

        Raises:
            PlanInvalid: the plan does not fit the pool or the limits.
        """
        self._check(plan)
        return forecast_plan(self._settings, plan, plan.query, texts=context or {})

    def run_sync(self, asked: Query | Plan, **options: Unpack[RunOptions]) -> Result:
        """Do as `run` from code that is not async, inside a running event loop too."""
        return run_sync(lambda: self.run(asked, **options))

    async def resume(  # noqa: PLR0913 - as `run`
        self,
        run_id: str,
        *,
        plan: Plan | None = None,
        policy: Policy | None = None,
        limits: Limits | None = None,
        force: bool = False,
        journal: Journal | None = None,
        middleware: CallMiddleware | None = None,
        step_starter: StepStarter | None = None,
        on_event: Listener | None = None,
    ) -> Result:
        """Go on with a recorded run: after a crash, a cancel, a failure or an approval.

        Recorded results are not paid for again. Steps that failed in the latest round run again,
        each with all of `Retry.attempts`. The limits of the whole run are those that it was begun with,
        whatever the limits of this conductor. The run has the whole of `Limits.seconds` again; what
        it spent before counts against all other limits. A run that ended `ok`, and one that has
        nothing left to do, is returned as recorded, and nothing is written.

        Args:
            run_id: the run's id.
            plan: replaces the last round's plan; equal steps with equal inputs keep their
                outputs. `None` changes nothing.
            policy: as for `run`; it is not recorded, so pass the one that the run was started with.
            limits: replace the limits of the run, from here on; they are recorded. `None` keeps the
                limits of the whole run (rounds, steps, calls, tokens, cost, seconds) from its record, and
                takes those of one plan, step or call from the conductor.
            force: resume a run that was given up as dead, too.
            journal: as for `run`.
            middleware: as for `run`.
            step_starter: as for `run`.
            on_event: as for `run`.

        Raises:
            ConfigError: the conductor has no journal, or the pool lacks a worker of the plan, or a worker
                has no price and `limits` set a cost.
            RunUnknown: the journal holds no such run.
            RunHeld: another process carries the run out.
            RunDead: the run was resumed too often after its process had died.
            PodiumError: as for `run`.
        """
        journal_of(self._settings, journal)
        if plan is not None:
            plan.fit(len(self.pool), (limits or self.limits).plan_steps)
        if limits is not None:
            _check_prices(self._settings, limits)
        request = RunRequest(
            run_id=run_id,
            plan=plan,
            policy=policy,
            resumes=True,
            limits=limits,
            force=force,
            journal=journal,
            middleware=middleware,
            step_starter=step_starter,
            stream=on_event is not None,
        )
        request = within_call(request)
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
        """Record a decision on the plan of a waiting run; `resume` then goes on with the run.

        Args:
            run_id: the run's id.
            approved: whether the plan may be carried out.
            plan: the changed plan; `None` changes nothing.
            by: who decided.
            why: the reason.
            journal: the journal that holds the run; `None` means the conductor's.

        Raises:
            ConfigError: the conductor has no journal, or the run does not wait for a decision.
            RunUnknown: the journal holds no such run.
            RunHeld: another process carries the run out.
            PlanForbidden: the policy does not allow the changed plan.
        """
        journal = journal_of(self._settings, journal)
        if plan is not None:  # the run checks it again, and knows whether there is a round before
            plan.fit(len(self.pool), self.limits.plan_steps, previous=True)
        async with self._open():
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
            WorkerFailed: the nested run has no answer.
        """
        async with aclosing(run_nested(self._settings, request, self._open)) as pieces:
            async for piece in pieces:
                yield piece

    async def _run(self, request: RunRequest, listen: Listener | None) -> Result:
        async with self._open():
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
        # Its own parts, and not itself: a run that ends closes nothing under another one. A journal that
        # is not entered keeps itself open for the next run.
        parts = [part for part in self._parts() if not isinstance(part, Journal)]
        return nullcontext() if self._entries.get() else _Parts(parts)

    def _parts(self) -> tuple[AbstractAsyncContextManager[Any], ...]:
        settings = self._settings
        own = (settings.accept, settings.cache, settings.journal)
        own_parts = [part for part in own if isinstance(part, ResourceGroup)]
        return (self.pool, *settings.planners, *own_parts)


class _Parts(ResourceGroup):
    """What a run holds open for itself."""

    def __init__(self, parts: Sequence[AbstractAsyncContextManager[Any]]) -> None:
        self._held = parts

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return self._held


def _check_planner(planner: object) -> None:
    if not isinstance(planner, Planner):
        host = "make one of a framework's model with as_planner(...) of its package"
        hint = "wrap it in a ChatPlanner" if isinstance(planner, Worker) else host
        raise ConfigError(f"{scrub(repr(planner)):.80} is not a planner: {hint}")
    if not isinstance(getattr(planner, "name", None), str):
        raise ConfigError(f'{type(planner).__name__} has no name: set `name = "..."` on the class')


def _check_prices(settings: ConductorSettings, limits: Limits) -> None:
    own = [worker.card for worker in settings.pool if not isinstance(worker, Conductor)]
    check_prices(limits, [*own, *(planner.card for planner in settings.planners)])


def _check_settings(settings: ConductorSettings) -> None:
    """Raise `ConfigError` for settings that would stop a run half-way."""
    if settings.on_failure not in get_args(OnFailure):
        values = ", ".join(map(repr, get_args(OnFailure)))
        raise ConfigError(f"on_failure is {settings.on_failure!r}: write one of {values}")
    _check_prices(settings, settings.limits)
    settings.retry.check(settings.pool)
    settings.policy.fit(settings.pool.cards)
    if settings.policy.waits and settings.journal is None:
        raise ConfigError("a policy that lets plans wait for approval needs a journal for them to wait in")
