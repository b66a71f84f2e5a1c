"""The conductor: plans a query and directs the run. The only place that joins the stages."""

from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from types import TracebackType
from typing import Self
from uuid import uuid4
from weakref import WeakKeyDictionary

import anyio

from podium.errors import ConfigError, LimitExceeded, PlanInvalid, PlannerError, WorkerFailed
from podium.events import AnswerDelta, Event, RunEnded, RunStarted
from podium.explain import explain_proposal
from podium.limits import Ledger, Limits
from podium.messages import Completion, Message, Query, read_query
from podium.outcome import Problem
from podium.plan import Plan
from podium.planners.direct import DirectPlanner
from podium.planners.planner import Planner
from podium.planners.rule import RulePlanner
from podium.planning import Planners, Planning
from podium.recursion import Accept, Rounds, conclusion
from podium.result import Result
from podium.setting import Setting
from podium.stream import events_of
from podium.sync import run_sync
from podium.workers.pool import Pool
from podium.workers.worker import Caller, Card, Request, Worker


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
        show_question: whether workers are shown the question besides their subtask.
        card: what a pool this conductor is put into says of it.

    Raises:
        ConfigError: the planner is none, or the pool has no workers, or two of one name.
    """

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
        show_question: bool = True,
        card: Card | None = None,
    ) -> None:
        _check_planner(planner)
        self.pool = pool if isinstance(pool, Pool) else Pool(pool)
        self.limits = limits or Limits()
        first = DirectPlanner(planner) if direct else planner
        self._planners = Planners(first=first, fallback=fallback or RulePlanner(), strict=strict)
        self._accept = accept
        self._opened: WeakKeyDictionary[AbstractEventLoop, int] = WeakKeyDictionary()
        self._show_question = show_question
        self.card = card or Card(name="conductor", description="Plans a task and has a team carry it out.")

    async def plan(self, query: Query) -> Plan:
        """Plan `query` and run nothing. Run the plan by giving it to `run` or `stream`.

        Raises:
            QueryError: the query is not one.
            PlannerError: neither the planner nor the fallback gave a usable plan.
            LimitExceeded: there was none within `Limits.seconds`.
            PodiumError: what is wrong with the planner's text, with `strict`.
        """
        messages = read_query(query)
        plan = None
        setting = self._setting(messages, None)
        planning = Planning(setting, self._planners, 1)
        async with self._open():
            with anyio.CancelScope(deadline=setting.ledger.deadline) as scope:
                plan = await planning.make()
        if scope.cancelled_caught:
            message = f"there was no plan within {self.limits.seconds:g} s: raise Limits.seconds"
            raise LimitExceeded("seconds", message)
        if plan is None:
            raise PlannerError(f"nobody gave a usable plan: {_told(planning)}")
        return Plan(plan.steps, messages, "\n".join(map(explain_proposal, planning.proposals)))

    async def run(self, asked: Query | Plan) -> Result:
        """Answer a query, or carry out a plan.

        A worker that fails does not raise: the result says what is missing and why.

        Raises:
            QueryError: the query is not one.
            PlanInvalid: the plan given does not fit the pool or the limits.
            PodiumError: what is wrong with the planner's text, with `strict`.
        """
        return await self._run(asked, None)

    def stream(self, asked: Query | Plan) -> AsyncGenerator[Event, None]:
        """Do as `run`, and yield what happens; the last event is `RunEnded` with the result.

        Leaving the iteration cancels the run. Raises as `run`.
        """
        return events_of(lambda emit: self._run(asked, emit, stream=True))

    def run_sync(self, asked: Query | Plan) -> Result:
        """Do as `run` from code that is not async, inside a running event loop too."""
        return run_sync(lambda: self.run(asked))

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Answer as a worker of another run, within that run's limits.

        Raises:
            LimitExceeded: the runs would nest deeper than `Limits.depth`.
            WorkerFailed: the run came to no answer.
        """
        caller, own, result = request.caller, None, None
        if caller is not None and caller.depth + 1 >= caller.ledger.limits.depth:
            limit = caller.ledger.limits.depth
            raise LimitExceeded("depth", f"conductors nest {limit} deep at most: raise Limits.depth for more")
        running = events_of(
            lambda emit: self._run(request.messages, emit, stream=request.stream, caller=caller)
        )
        async with aclosing(running) as events:
            async for event in events:
                own = own or event.run_id  # runs nested in this one emit here too, after its first event
                if isinstance(event, RunEnded) and event.run_id == own:
                    result = event.result
                elif isinstance(event, AnswerDelta) and event.run_id == own:
                    yield event.text
                if caller is not None and caller.emit is not None:
                    caller.emit(event)
        if result is None or result.status == "failed":
            told = (
                result.problem.message if result is not None and result.problem is not None else "no answer"
            )
            usage, cost = (None, None) if result is None else (result.usage, result.cost)
            message = f"the nested run came to nothing: {told}"
            raise WorkerFailed(message, maybe_paid=True, usage=usage, cost=cost)
        missing = None if result.problem is None else result.problem.message
        yield Completion(result.answer, usage=result.usage, cost=result.cost, missing=missing)

    async def _run(
        self,
        asked: Query | Plan,
        emit: Callable[[Event], None] | None,
        *,
        stream: bool = False,
        caller: Caller | None = None,
    ) -> Result:
        given = asked if isinstance(asked, Plan) else None
        query = asked.query if isinstance(asked, Plan) else read_query(asked)
        if given is not None:
            self._check(given)
        setting = self._setting(query, emit, stream=stream, caller=caller)
        rounds = Rounds(setting, self._planners, self._accept)
        parent = None if caller is None else (caller.run_id, caller.round, caller.step, caller.attempt)
        setting.tell(RunStarted, workers=self.pool.names, parent=parent)
        async with self._open():
            with anyio.CancelScope(deadline=setting.ledger.deadline) as scope:
                await rounds.run(given)
        result = self._result(setting, rounds, out_of_time=scope.cancelled_caught)
        if stream and result.answer and not rounds.answer_sent:
            source = next(o for o in reversed(result.outcomes) if o.text == result.answer)
            ids = {"round": source.round, "step": source.step, "attempt": source.attempts}
            setting.tell(AnswerDelta, **ids, text=result.answer)
        setting.tell(RunEnded, result=result)
        return result

    def _setting(
        self,
        query: tuple[Message, ...],
        emit: Callable[[Event], None] | None,
        *,
        stream: bool = False,
        caller: Caller | None = None,
    ) -> Setting:
        clock = get_running_loop().time
        began = clock()
        depth = 0 if caller is None else caller.depth + 1
        deadline = began + self.limits.seconds
        if caller is None:
            ledger = Ledger(self.limits, deadline)
        else:
            ledger = caller.ledger.nested(self.limits, depth, deadline)
        return Setting(
            run_id=uuid4().hex,
            query=query,
            pool=self.pool,
            limits=self.limits,
            ledger=ledger,
            emit=emit,
            depth=depth,
            stream=stream,
            show_question=self._show_question and bool(query),
            clock=clock,
            began=began,
        )

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

    def _result(self, setting: Setting, rounds: Rounds, *, out_of_time: bool) -> Result:
        answer, status, problem = conclusion(rounds.done)
        if status == "ok" and (out_of_time or rounds.problem is not None):
            status, problem = "partial", rounds.problem
        if out_of_time:
            whose = f"its {self.limits.seconds:g} s (Limits.seconds)"
            whose += " or its caller's" if setting.depth else ""
            problem = Problem(LimitExceeded.code, f"the run was over {whose}")
        return Result(
            run_id=setting.run_id,
            answer=answer,
            status=status,
            problem=problem,
            rounds=tuple(rounds.done),
            workers=self.pool.names,
            seconds=setting.now(),
        )

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
        return nullcontext() if self._opened.get(get_running_loop()) else self

    def _parts(self) -> tuple[Pool | Planner | Worker, ...]:
        judge = (self._accept,) if isinstance(self._accept, Worker) else ()
        return (self.pool, self._planners.first, self._planners.fallback, *judge)


def _told(planning: Planning) -> str:
    problems = [p.problem.message for p in planning.proposals if p.problem is not None]
    return "; ".join(problems)


def _check_planner(planner: object) -> None:
    if not isinstance(planner, Planner):
        hint = ": wrap it in a ChatPlanner" if isinstance(planner, Worker) else ""
        raise ConfigError(f"{planner!r:.80} is no planner{hint}")
