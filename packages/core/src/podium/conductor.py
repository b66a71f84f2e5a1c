"""The class `Conductor`, which plans a query and runs the plan with a pool of workers."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Literal, NoReturn, Self, Unpack

from podium.aio.loops import LoopLocal, ResourceGroup
from podium.aio.sync import events_of, run_sync
from podium.budget.limits import Limits, Spend
from podium.errors import ConfigError, JournalBroken
from podium.execution.context import Accept, ConductorSettings, RunRequest
from podium.execution.retry import OnFailure, Retry
from podium.journal.cache import Cache
from podium.journal.journal import Journal
from podium.plan_text.saved import SavedPlan, written_out
from podium.planners.planner import FixedPlanner, Planner
from podium.planners.rule import DirectPlanner
from podium.policy import Policy
from podium.run.acquire import recorded_request
from podium.run.approval import Decision, decide
from podium.run.forecast import Preview, forecast_plan, preview
from podium.run.nested import run_nested
from podium.run.request import (
    Asked,
    ResumeOptions,
    RunOptions,
    check_planner,
    check_settings,
    checked_labels,
    journal_of,
    logged_warnings,
    new_request,
    resumed_request,
)
from podium.run.runner import Listener, RunSession
from podium.run_state.state import fold
from podium.types.events import Event
from podium.types.forecast import Forecast
from podium.types.messages import Completion
from podium.types.plan import Plan
from podium.types.result import Result
from podium.types.steps import Step
from podium.workers.pool import Pool, check_prices, unpriced
from podium.workers.worker import Card, Request, Worker

CARD = Card(name="conductor", description="Plans a task and has a team carry it out.")
"""The default card of a conductor."""
_ONE_STEP = Step(0, "Answer the question.")
_TWO_HOURS = Limits(seconds=7200.0, step_seconds=7200.0, attempt_seconds=7200.0)


class Conductor(Worker):
    """Answers queries: gets a plan for each query, and runs the plan with a pool of workers.

    In a block `async with conductor:`, connections stay open between runs; otherwise each run opens and
    closes them. A conductor can execute any number of runs at the same time. A conductor is also a worker: in
    the pool of another conductor, it writes a plan for its subtask and runs the plan, within the limits of
    the outer run.

    Args:
        planner: writes the plans.
        workers: the workers that run the steps, or their pool.
        limits: limits of each run, such as its cost and duration.
        fallback_planner: writes the plan if `planner` returns no valid plan after its retries and one repair;
            the result is then `partial`. With `None`, the run fails with `PlannerError` in this case.
        direct: whether a short question without parts is sent to one worker, without a planner call: to the
            worker whose card fits it best. If several fit equally, the question is planned, or is sent to
            the worker that `direct` names.
        accept: judges each round's answer; if it rejects the answer, another round is
            planned, up to `Limits.rounds`. `None` accepts every answer.
        policy: what plans may do; `None` allows everything.
        labels: labels of each query, in addition to those of a run.
        retry: which failed calls are retried; the default is `Retry()`.
        on_failure: what happens when a step fails: see `podium.execution.OnFailure`.
        cache: stores answers, so that an equal call reuses the stored answer: in all runs that share the
            cache, or with `"run"` in the same run; `None` disables caching.
        journal: records runs, so they can be resumed and audited; `None` records nothing.
        show_question: whether workers see the question in addition to their subtask.
        plans: saved plans, which plans may name (`plan`).
        warm_prefix: whether, of the items of a map, the first call goes alone until its server begins to
            answer, so that the others read the common beginning of their prompts from the prompt cache.
        card: describes this conductor in the pool of another conductor.

    Raises:
        ConfigError: `planner` is not a planner or cannot plan for the pool, the pool is empty or has two
            workers with the same name, or `direct` names none of them.
    """

    takes_texts = True
    takes_tools = True
    nests = True

    def __init__(  # noqa: PLR0913 - a settings object would have the same fields
        self,
        planner: Planner,
        workers: Pool | Sequence[Worker],
        *,
        limits: Limits | None = None,
        fallback_planner: Planner | None = None,
        direct: bool | str = False,
        accept: Accept | None = None,
        policy: Policy | None = None,
        labels: Iterable[str] = (),
        retry: Retry | None = None,
        on_failure: OnFailure = "note",
        cache: Cache | Literal["run"] | None = None,
        journal: Journal | None = None,
        show_question: bool = True,
        warm_prefix: bool = False,
        plans: Iterable[SavedPlan] = (),
        card: Card | None = None,
    ) -> None:
        check_planner(planner)
        if fallback_planner is not None:
            check_planner(fallback_planner)
        self.planner = planner
        self.takes_tools = planner.rounds is None
        self.pool = workers if isinstance(workers, Pool) else Pool(workers)
        self.limits = limits or Limits()
        self.journal = journal
        self.policy = policy or Policy()
        self.retry = retry or Retry()
        self.show_question = show_question
        self.warnings = logged_warnings(planner, self.pool)
        """Why plans for this pool may be worse than the planner can write; see `Planner.warnings`."""
        if isinstance(direct, str) and direct not in self.pool.names:
            raise ConfigError(f"direct names {direct!r}; the workers are {', '.join(self.pool.names)}")
        if direct:
            planner = DirectPlanner(planner, direct if isinstance(direct, str) else None)
        own = card or CARD
        found = checked_labels(labels)
        cards = (own, *self.pool.cards)
        shown = cards if show_question else (own,)
        self.card = replace(
            own,
            labels=found.union(*(each.labels for each in cards)),
            parts=own.parts.union(*(each.parts for each in shown)),
        )
        self._settings = ConductorSettings(
            name=own.name,
            pool=self.pool,
            planner=planner,
            fallback_planner=fallback_planner,
            limits=self.limits,
            accept=accept,
            policy=self.policy,
            retry=self.retry,
            on_failure=on_failure,
            cache=cache,
            journal=journal,
            show_question=show_question,
            warm_prefix=warm_prefix,
            plans={plan.name: plan for plan in (*plans, planner.saved) if plan is not None},
            labels=found,
        )
        check_settings(self._settings)
        self._check_prices(self.limits)
        self.is_interruptible = any(worker.is_interruptible for worker in self.pool)
        self._entries = LoopLocal(int)

    @classmethod
    def of(cls, worker: Worker | Pool, *, name: str | None = None, **options: Any) -> Self:
        """Return a conductor whose plans are one step: the worker is sent each conversation unchanged.

        Only `content: null`, of a message with tool calls, becomes empty text.

        Args:
            worker: answers each query, such as a hosted conductor; in a pool, the first worker does.
            name: the name of the conductor; `None` means the name of the worker.
            options: options of `Conductor`. By default, a run, its step and each attempt may take two hours.

        Raises:
            ConfigError: see `Conductor`.
        """
        pool = worker if isinstance(worker, Pool) else Pool([worker])
        card = Card(name=name or pool.names[0], description=pool.cards[0].description)
        given: dict[str, Any] = {"limits": _TWO_HOURS, "card": card}
        given |= {name: value for name, value in options.items() if value is not None}
        made = cls(FixedPlanner(Plan((_ONE_STEP,))), pool, **given)
        made._settings = replace(made._settings, verbatim=_ONE_STEP)
        return made

    def __reduce__(self) -> NoReturn:
        """Raise `TypeError`: connections, locks and limits cannot be copied or pickled."""
        raise TypeError("a Conductor cannot be copied or pickled: it has locks. Share it, or create another")

    def bind(
        self, *, labels: Iterable[str] = (), policy: Policy | None = None, workers: Sequence[Worker] = ()
    ) -> Self:
        """Return a conductor with the same workers, connections and journal, for queries with these labels.

        Objects of a host often call a conductor without options: give them a bound conductor.

        Args:
            labels: labels of each query, in addition to those of this conductor.
            policy: applies in addition to the policy of this conductor; `None` adds nothing.
            workers: workers after those of this conductor.

        Raises:
            ConfigError: the policy does not fit the pool or a label, or see `Conductor`.
        """
        if not labels and policy is None and not workers:
            return self
        settings, bound = self._settings, object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound.policy = self.policy if policy is None else policy & self.policy
        bound.pool = Pool([*self.pool, *workers], shares=self.pool) if workers else self.pool
        together, cards = settings.labels | checked_labels(labels), [worker.card for worker in workers]
        parts = self.card.parts.union(*(card.parts for card in cards if self.show_question))
        found = self.card.labels.union(together, *(card.labels for card in cards))
        bound.card = replace(self.card, labels=found, parts=parts)
        bound.is_interruptible = any(worker.is_interruptible for worker in bound.pool)
        bound._settings = replace(settings, policy=bound.policy, labels=together, pool=bound.pool)
        check_settings(bound._settings)
        bound._check_prices(self.limits)
        return bound

    @property
    def acts(self) -> bool:  # type: ignore[override]
        """Whether a worker of the pool may act; see `Worker.acts`."""
        return any(worker.acts for worker in self.pool)

    @property
    def waits(self) -> bool:
        """Whether runs may wait in their journal for the approval or the answer of a person."""
        return self.policy.waits or self.pool.waits_for is not None

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Names of the workers and planners of unknown price, without those of nested conductors."""
        return unpriced(self._cards())

    @property
    def plans(self) -> Mapping[str, SavedPlan]:
        """The saved plans, by name."""
        return self._settings.plans

    @property
    def is_judged(self) -> bool:
        """Whether each answer is judged (`accept`)."""
        return self._settings.accept is not None

    async def plan(
        self,
        asked: Asked,
        *,
        context: Mapping[str, str] | None = None,
        labels: Iterable[str] = (),
        policy: Policy | None = None,
    ) -> Plan:
        """Plan a query without running the plan. `run` and `stream` accept the plan.

        Args:
            asked: the question, a conversation, or a plan, which is checked and written out.
            context: named texts that the plan may refer to; pass them to `run` as well. `None` means none.
            labels: properties of the query that the policy's rules refer to.
            policy: applies in addition to the conductor's policy; `None` adds nothing.

        Raises:
            QueryError: the query is empty or malformed.
            PlannerError: no planner wrote a usable plan within `Limits.seconds`.
        """
        request = new_request(
            self._settings, asked, stream=False, context=context or {}, labels=labels, policy=policy
        )
        async with self._open():
            return await RunSession(self._settings, request, None).plan_only()

    async def run(
        self,
        asked: Asked,
        *,
        on_event: Listener | None = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Answer a query, or run a plan.

        If a worker fails, no error is raised: the result has the problem. Only bugs in its code are raised.

        Args:
            asked: a question, a conversation, a plan, or a saved plan. The question of a conversation is the
                user's last message; see `podium.types.read_conversation`. Each step sees its own
                tool calls after the question, and their results.
            on_event: called with each event as it happens; `stream` yields the same events.
            options: see `podium.run.RunOptions`.

        Raises:
            QueryError: the query is empty or malformed.
            PlanInvalid: the given plan does not fit the pool or the limits.
            PlanForbidden: the policy does not allow the given plan.
            ConfigError: the option `limits` sets a cost, and a worker has no price.
            PlannerError: no planner wrote a usable plan. With a journal the run can be resumed,
                which calls the planner again.
            RunExists: the journal has another run with this id.
            JournalError: the run cannot be recorded; the error's `result` is set if the run has ended.
            ListenerFailed: `on_event` raised; the error's `result` is the run's result.
            TypeError: or `AttributeError`, `NameError`, `ImportError`: a bug in the caller's own code.
        """
        self._check_prices(options.get("limits"))
        request = new_request(self._settings, asked, stream=on_event is not None, **options)
        return await self._run(request, on_event)

    def stream(self, asked: Asked, **options: Unpack[RunOptions]) -> AsyncGenerator[Event, None]:
        """Answer a query, or run a plan, and yield the events; the last event is `RunEnded` with the result.

        Leaving the iteration cancels the run. `run` describes the arguments and exceptions.
        """
        return events_of(lambda emit: self.run(asked, on_event=emit, **options))

    def forecast(self, plan: Plan, *, context: Mapping[str, str] | None = None) -> Forecast:
        """Return the expected calls, tokens, USD and seconds of a plan, from the latest calls or assumptions.

        Args:
            plan: the plan.
            context: the named texts that the steps refer to; `None` means none.

        Raises:
            PlanInvalid: the plan does not fit the pool or the limits.
        """
        plan = self._written_out(plan)
        plan.fit(len(self.pool), self.limits.plan_steps)
        return forecast_plan(self._settings, plan, plan.query, context or {})

    def _written_out(self, plan: Plan) -> Plan:
        return written_out(plan, self._settings.plans, self.pool.names, depth=self.limits.depth)

    def actions_of(self, plan: Plan) -> tuple[int, ...]:
        """Return the indices of the steps of a plan that are actions: see `Worker.acts`."""
        return self._settings.actions_of(plan)

    def run_sync(self, asked: Asked, **options: Unpack[RunOptions]) -> Result:
        """Call `run` from synchronous code, even inside a running event loop."""
        return run_sync(lambda: self.run(asked, **options))

    async def resume(
        self, run_id: str, *, on_event: Listener | None = None, **options: Unpack[ResumeOptions]
    ) -> Result:
        """Resume a recorded run after a crash, a cancellation, a failure or an approval.

        Recorded results are not paid for again. Steps that failed in the latest round run again, each with
        up to `Retry.attempts` new calls. If the fallback planner wrote the last plan, the planner is asked
        again; if it fails again, this plan stays. `Limits.seconds` starts again; earlier spending counts
        against all other limits. If no steps are left, the recorded result is returned.

        Args:
            run_id: the run's id.
            on_event: see `run`.
            options: see `podium.run.ResumeOptions`.

        Raises:
            ConfigError: there is no journal or price, or the pool lacks a worker, or results of tools lack.
            RunUnknown: the journal has no run with this id.
            RunHeld: another process executes the run.
            RunDead: the run was resumed too often after its process died.
            PodiumError: see `run`.
        """
        self._check_prices(options.get("limits"))
        request = resumed_request(self._settings, run_id, stream=on_event is not None, **options)
        return await self._run(request, on_event)

    async def preview(self, run_id: str, plan: Plan, *, journal: Journal | None = None) -> Preview:
        """Return what `resume(run_id, plan=plan)` would keep, and what it would pay for again.

        Args:
            run_id: the id of a recorded run.
            plan: the plan that replaces the plan of its last round.
            journal: the journal; by default the conductor's journal.

        Raises:
            ConfigError, RunUnknown: see `resume`.
            PlanError: the plan is invalid, or the policy does not allow it.
        """
        settings, record = self._settings, journal_of(self._settings, journal)
        request = resumed_request(settings, run_id, stream=False, plan=plan, journal=record)
        entries, nested = await record.read(run_id), await record.nested(run_id)
        state = fold((entry.event for entry in entries), nested)
        if state.started is None:
            raise JournalBroken("the record does not begin with the start of a run")
        request = recorded_request(request, state.started, settings)
        return await preview(settings, request, state, request.plan or plan)

    async def decide(
        self, run_id: str, *, journal: Journal | None = None, **decision: Unpack[Decision]
    ) -> None:
        """Record a decision on a plan, an action or a question that waits; `resume` then continues the run.

        Args:
            run_id: the run's id.
            journal: the journal of the run; `None` means the conductor's journal.
            decision: see `podium.run.Decision`.

        Raises:
            ConfigError: the conductor has no journal, the run does not wait for such a decision, or not
                exactly one of `approved`, `done` and `answer` is given.
            QueryError: the answer is late or does not fit, or the arguments hold a secret, are not JSON, or
                are refused by the worker.
            RunUnknown: the journal has no run with this id.
            RunHeld: another process executes the run.
            PlanError: the changed plan is invalid, or the policy does not allow it.
        """
        await decide(journal_of(self._settings, journal), run_id, self._settings, **decision)

    def worst_case(self, request: Request, answer_tokens: int) -> Spend | None:
        """Return `None` inside a run, because the run's ledger counts the calls of the nested run."""
        return super().worst_case(request, answer_tokens) if request.step_input is None else None

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Answer as a worker of another run, within that run's limits and under its policy.

        Raises:
            LimitExceeded: the runs would be nested deeper than `Limits.depth`.
            WorkerFailed: the nested run has no answer.
        """
        async with aclosing(run_nested(self._settings, request, self._open)) as pieces:
            async for piece in pieces:
                yield piece

    def check_host(self) -> None:
        """Check each worker: see `Worker.check_host`."""
        for worker in self.pool:
            worker.check_host()

    async def _run(self, request: RunRequest, listen: Listener | None) -> Result:
        self.check_host()
        async with self._open():
            return await RunSession(self._settings, request, listen).run()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._entries.set(self._entries.get() + 1)
        return self

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:  # noqa: PYI036 - passed on
        self._entries.set(self._entries.get() - 1)
        await super().__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[None]:
        """Open pool, planners, judge and cache for one run, unless the conductor is open."""
        # The parts are entered, not the conductor, so the end of this run does not close the connections of
        # other runs. A journal that is not entered stays open for the next run.
        async with AsyncExitStack() as opened:
            for part in () if self._entries.get() else self._parts():
                if not isinstance(part, Journal):
                    await opened.enter_async_context(part)
            yield

    def _parts(self) -> tuple[AbstractAsyncContextManager[Any], ...]:
        settings = self._settings
        own = (settings.accept, settings.cache, settings.journal)
        return (self.pool, *settings.planners, *(part for part in own if isinstance(part, ResourceGroup)))

    def _cards(self) -> list[Card | None]:
        """Return the cards of the workers and planners whose calls this conductor's runs pay."""
        own = [worker.card for worker in self.pool if not isinstance(worker, Conductor)]
        return [*own, *(planner.card for planner in self._settings.planners)]

    def _check_prices(self, limits: Limits | None) -> None:
        if limits is not None:
            if not isinstance(limits, Limits):
                raise ConfigError(
                    f"limits is {limits!r:.80}: write Limits(...) of podium, such as Limits(calls=3)"
                )
            check_prices(limits, self._cards())
