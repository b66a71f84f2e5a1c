"""The conductor: plans a query and directs the run. The only place that joins the stages."""

from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self, Unpack
from uuid import uuid4
from weakref import WeakKeyDictionary

from podium.aio.event_stream import events_of
from podium.aio.resources import ResourceGroup
from podium.aio.sync import run_sync
from podium.budget.ledger import Spend
from podium.budget.limits import Limits
from podium.errors import ConfigError, LimitExceeded, PlanInvalid, PlannerError, WorkerFailed
from podium.execution.external_scheduler import StepStarter
from podium.execution.retry_policy import Retry
from podium.execution.run_context import OnFailure
from podium.journal.answer_cache import Cache
from podium.journal.journal import Journal
from podium.planners.direct import DirectPlanner
from podium.planners.planner import Planner
from podium.planners.rule import RulePlanner
from podium.policy import Policy
from podium.resume.paid_results import step_key
from podium.run.acceptance import Accept
from podium.run.approval import decide
from podium.run.listeners import Listener, called_with
from podium.run.options import RunOptions
from podium.run.planning import Planners, PlanRequester
from podium.run.request import ConductorSettings, RunRequest, nested_id
from podium.run.runner import RunSession, plan_only, reckon
from podium.types.events import AnswerDelta, ApprovalGiven, Event, RunEnded
from podium.types.explain import explain_proposal
from podium.types.forecast import Forecast
from podium.types.messages import Completion, Query, Sampling, Tools, read_query, read_turns
from podium.types.plan import Plan
from podium.types.result import Result
from podium.workers.pool import Pool
from podium.workers.worker import CallMiddleware, Card, Request, Worker, step_input_of
from podium.workers.worst_case import check_prices

_PLAIN = Sampling()


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
        self._team = ConductorSettings(
            name=own.name,
            pool=self.pool,
            planners=Planners(first=first, fallback=fallback or RulePlanner(), strict=strict),
            limits=self.limits,
            accept=accept,
            policy=self.policy,
            retry=retry or Retry(),
            on_failure=on_failure,
            cache=cache,
            journal=journal,
            show_question=show_question,
        )
        _check_team(self._team)
        self._opened: WeakKeyDictionary[AbstractEventLoop, int] = WeakKeyDictionary()

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
        job = self._job(query, {"labels": labels, "policy": policy}, stream=False)
        async with self._open():
            planning, plan = await plan_only(self._team, job)
        if plan is None:
            raise PlannerError(f"nobody gave a usable plan: {_told(planning)}")
        return Plan(plan.steps, job.query, "\n".join(map(explain_proposal, planning.proposals)))

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
        job = self._job(asked, options, stream=on_event is not None)
        return await called_with(on_event, lambda listen: self._run(job, listen))

    def stream(self, asked: Query | Plan, **options: Unpack[RunOptions]) -> AsyncGenerator[Event, None]:
        """Do as `run`, and yield what happens; the last event is `RunEnded` with the result.

        Leaving the iteration cancels the run. Takes and raises what `run` does.
        """

        async def run(emit: Listener) -> Result:
            return await self._run(self._job(asked, options, stream=True), emit)

        return events_of(run)

    def forecast(self, plan: Plan) -> Forecast:
        """Return what carrying out a plan will take: calls, tokens, USD and seconds.

        It is reckoned from what the workers took lately, and from general experience where
        they have done too little.

        Raises:
            PlanInvalid: the plan does not fit the pool or the limits.
        """
        self._check(plan)
        return reckon(self._team, plan, plan.query)

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
        self._recorded(journal)
        if plan is not None:
            self._check(plan)
        job = RunRequest(
            run_id=run_id,
            is_minted=False,
            plan=plan,
            policy=policy,
            resumes=True,
            force=force,
            journal=journal,
            middleware=middleware,
            step_starter=step_starter,
            stream=on_event is not None,
        )
        return await called_with(on_event, lambda listen: self._run(job, listen))

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
        journal = self._recorded(journal)
        if plan is not None:
            self._check(plan)
        async with self._open(), journal:
            given = ApprovalGiven(
                run_id=run_id, at=0.0, round=0, approved=approved, plan=plan, by=by, why=why
            )
            await decide(journal, given, self.pool.names, self._verify)

    def _verify(self, plan: Plan, labels: frozenset[str]) -> None:
        self._team.policy.verify(plan, self.pool.cards, labels)

    def worst_case(self, request: Request, answer_tokens: int) -> Spend | None:
        """Return `None` within a run, whose ledger the nested run's calls are booked in."""
        return None if request.caller is not None else super().worst_case(request, answer_tokens)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Answer as a worker of another run, within that run's limits and under its policy.

        Raises:
            LimitExceeded: the runs would nest deeper than `Limits.depth`.
            WorkerFailed: the run came to no answer.
        """
        caller, result = request.caller, None
        if caller is not None and caller.depth + 1 >= caller.ledger.limits.depth:
            limit = caller.ledger.limits.depth
            raise LimitExceeded("depth", f"conductors nest {limit} deep at most: raise Limits.depth for more")
        job = self._nested(request)
        runs: list[RunSession] = []

        async def run(emit: Listener) -> Result:
            def listen(event: Event) -> None:
                if caller is not None and caller.emit is not None:
                    caller.emit(event)  # at once, so that what a cancel leaves is told too
                if event.run_id == job.run_id:
                    emit(event)

            runs.append(RunSession(self._team, job, listen))
            async with self._open():
                return await runs[0].run()

        async with aclosing(events_of(run)) as events:
            async for event in events:
                if isinstance(event, RunEnded):
                    result = event.result
                elif isinstance(event, AnswerDelta):
                    yield event.text
        yield _completion(result, runs[0].before)

    async def _run(self, job: RunRequest, listen: Listener | None) -> Result:
        async with self._open(), job.journal or nullcontext():
            return await RunSession(self._team, job, listen).run()

    def _job(self, asked: Query | Plan, options: RunOptions, *, stream: bool) -> RunRequest:
        run_id, journal, policy = options.get("run_id"), options.get("journal"), options.get("policy")
        if run_id is not None:
            self._recorded(journal)
        plan = asked if isinstance(asked, Plan) else None
        query, turns = (asked.query, ()) if isinstance(asked, Plan) else read_turns(asked)
        tools = options.get("tools", ())
        if not isinstance(tools, Tools):
            tools = Tools(tuple(tools))
        job = RunRequest(
            run_id=run_id or uuid4().hex,
            is_minted=run_id is None,
            query=query,
            plan=plan,
            labels=frozenset(options.get("labels", ())),
            policy=policy,
            paid_results=options.get("paid_results"),
            forecasts=options.get("forecast", False),
            journal=journal,
            tools=tools if tools.offered else None,
            sampling=options.get("sampling", _PLAIN),
            turns=turns,
            middleware=options.get("middleware"),
            step_starter=options.get("step_starter"),
            stream=stream,
        )
        rules = self._team.policy
        if policy is not None:
            policy.fit(self.pool.cards)
            rules = policy & rules
        if plan is None:
            return job
        self._check(plan)
        return job if rules.silent else replace(job, plan=rules.check(plan, self.pool.cards, job.labels))

    def _nested(self, request: Request) -> RunRequest:
        """Return the run that answers a request: the one that did so before, if it was recorded."""
        asked = request.messages[: len(request.messages) - len(request.turns)]
        query, caller = read_query(asked), request.caller
        minted = caller is None or caller.journal is None
        run_id = uuid4().hex
        if caller is not None and not minted:
            run_id = nested_id(caller, step_key(self.card.name, step_input_of(request), request.turns))
        labels = frozenset[str]() if caller is None else caller.labels
        return RunRequest(
            run_id=run_id,
            is_minted=minted,
            query=query,
            labels=labels,
            caller=caller,
            tools=request.tools,
            sampling=request.sampling if request.turns or request.tools else _PLAIN,
            turns=request.turns,
            stream=request.stream,
            resumes=False,
        )

    def _recorded(self, given: Journal | None) -> Journal:
        journal = given or self._team.journal
        if journal is None:
            raise ConfigError(
                "the conductor has no journal: give it one, as in Conductor(..., journal=SqlJournal())"
            )
        return journal

    def _check(self, plan: Plan) -> None:
        if not plan.steps:
            raise PlanInvalid("nothing_to_keep", "the plan has no steps: there is no answer to keep yet")
        if len(plan.steps) > self.limits.plan_steps:
            most = self.limits.plan_steps
            message = f"the plan has {len(plan.steps)} steps; Limits.plan_steps allows {most}"
            raise PlanInvalid("too_many_steps", message)
        for index, step in enumerate(plan.steps):
            if step.worker >= len(self.pool):
                message = f"step {index} names worker {step.worker}; there are 0 to {len(self.pool) - 1}"
                raise PlanInvalid("unknown_worker", message, step=index)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        loop = get_running_loop()
        self._opened[loop] = self._opened.get(loop, 0) + 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened[get_running_loop()] -= 1
        await super().__aexit__(kind, error, traceback)

    def _open(self) -> AbstractAsyncContextManager[object]:
        """Return what keeps everything open during a run: nothing, where the caller does."""
        # Its own parts, and not itself: a run that ends closes nothing under another one.
        return nullcontext() if self._opened.get(get_running_loop()) else _Parts(self._parts())

    def _parts(self) -> tuple[AbstractAsyncContextManager[Any], ...]:
        team = self._team
        own = [part for part in (team.accept, team.cache, team.journal) if isinstance(part, ResourceGroup)]
        return (self.pool, team.planners.first, team.planners.fallback, *own)


class _Parts(ResourceGroup):
    """What a run holds open for itself."""

    def __init__(self, parts: Sequence[AbstractAsyncContextManager[Any]]) -> None:
        self._held = parts

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return self._held


def _told(planning: PlanRequester) -> str:
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


def _check_team(team: ConductorSettings) -> None:
    """Refuse at the start what would stop a run half-way."""
    own = [worker.card for worker in team.pool if not isinstance(worker, Conductor)]
    check_prices(team.limits, [*own, team.planners.first.card, team.planners.fallback.card])
    team.retry.check(team.pool)
    team.policy.fit(team.pool.cards)
    if team.policy.waits and team.journal is None:
        raise ConfigError("a policy that lets plans wait for approval needs a journal for them to wait in")
    if team.on_failure == "replan" and team.limits.rounds < 2:
        raise ConfigError("on_failure='replan' needs another round to plan: set Limits.rounds to 2 or more")
