"""The three records of a run: its conductor's settings, its request, and its context."""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

from podium.aio.calls import OpenTasks
from podium.budget.ledger import NO_NEEDS, Kept, Ledger, Reservation
from podium.budget.limits import Limits
from podium.execution.retry import OnFailure, Retry
from podium.journal.cache import Cache
from podium.journal.journal import Journal
from podium.plan_text.saved import SavedPlan
from podium.planners.planner import Planner
from podium.policy import Policy
from podium.prompts.prompt import for_card, step_input, worker_messages
from podium.run_state.actions import ActionLog, by_command
from podium.run_state.paid import Exchange, PaidResults
from podium.types.events import ApprovalAsked, ApprovalGiven, Event, StepEnded
from podium.types.messages import Message, Part, Sampling, Tools
from podium.types.outcome import Action, Outcome
from podium.types.plan import Plan
from podium.types.steps import AnyStep, Step, calls_in
from podium.usage import Usage
from podium.workers.person import PersonWorker
from podium.workers.pool import Overlong, Pool
from podium.workers.worker import Caller, CallMiddleware, Card, StepInput, VisibleStep, Worker


class HostExit(BaseException):
    """Base class of exceptions that a host's middleware raises in a worker's call to leave the run.

    If a `Host` keeps the run, only this step waits, and the others continue. Otherwise the run raises it.

    Args:
        args: the arguments of the exception.
        usage: the tokens that the call has used; `None` if they are not known: Podium then estimates them.
        continues: whether the host continues the call when it runs the step again. Otherwise it is not known
            whether an action was carried out.
    """

    actions: tuple[Action, ...] = ()
    """The actions that the run had begun when it was left."""

    def __init__(self, *args: object, usage: Usage | None = None, continues: bool = True) -> None:
        super().__init__(*args)
        self.usage = usage
        self.continues = continues


class Host(Protocol):
    """A framework that shows the steps of a run as parts of its own, such as the nodes of a graph."""

    async def show(self, number: int, plan: Plan) -> None:
        """Show the steps of a round, beside them, until all have ended or the host is left.

        The run raises its exceptions, and cancels the steps.

        Args:
            number: the number of the round, from 1.
            plan: its plan.
        """

    def takes(self, worker: Worker) -> bool:
        """Return whether the host carries out the calls of a worker, with `call`."""
        ...

    async def call(self, number: int, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Carry out an execution in the host's context; a step that has no outcome afterwards waits.

        Args:
            number: the number of the round.
            name: the name of the execution, as in `Outcome.name`.
            work: carries it out; raises `HostExit` if its call is left.
        """

    def keeps(self, left: HostExit) -> bool:
        """Return whether the step whose call was left waits, while the others continue."""
        ...

    async def decide(self, asked: ApprovalAsked, problem: str) -> ApprovalGiven | None:
        """Return a decision or an answer of a person; `None` if the run must wait for it.

        Args:
            asked: the plan, the action, the fan-out or the question.
            problem: why the answer before is not used; empty for the first.
        """
        ...

    def hear(self, event: Event) -> None:
        """Take note of an event of the run, or of a run nested in it, after it is recorded."""

    def stored(self, number: int, plan: Plan, name: str) -> tuple[str | None, Outcome] | None:
        """Return the outcome of an execution that the host has stored, before a call for it; else `None`.

        It stands if the hash of its input is the same. If a person has edited it, there is no hash: `None`.

        Args:
            number: the number of the round.
            plan: its plan.
            name: the name of the execution.
        """
        ...

    def remedy(self, action: Action, options: str) -> str:
        """Return how a person decides on an action without a known good end; see `by_command`."""
        return by_command(action, options)

    def begin(self, number: int, names: Sequence[str]) -> None:
        """Take note of executions that begin.

        Args:
            number: the number of the round.
            names: the names of the executions.
        """


Accept = Worker | Callable[[str, str], bool | str | Awaitable[bool | str]]
"""Judges an answer: a worker that answers YES or NO, or a function of question and answer.

The function returns `True` or an empty text to accept the answer, and `False` or a text with the reason to
reject it.
"""

_NO_SPAN = nullcontext()
_PLAIN = Sampling()


@dataclass(frozen=True, kw_only=True)
class ConductorSettings:
    """The settings of a conductor, which all its runs share."""

    name: str
    """The conductor's name."""
    pool: Pool
    planner: Planner
    fallback_planner: Planner | None = None
    """Plans the first round if `planner` gives no valid plan; with `None` the run fails then."""
    limits: Limits
    accept: Accept | None = None
    policy: Policy = Policy()
    retry: Retry = Retry()
    on_failure: OnFailure = "note"
    cache: Cache | Literal["run"] | None = None
    journal: Journal | None = None
    show_question: bool = True
    """Whether workers see the question in addition to their subtask."""
    plans: Mapping[str, SavedPlan] = field(default_factory=dict)
    """The saved plans that plans may name."""
    warm_prefix: bool = False
    """Whether the first of the calls that items of a map make with the same prefix goes alone."""
    verbatim: Step | None = None
    """The step whose worker is sent the conversation unchanged, in place of a prompt; `None` for no step."""
    labels: frozenset[str] = frozenset()
    """Labels of each query."""

    @cached_property
    def _called(self) -> tuple[list[Worker], ...]:
        """For each worker of the pool: the worker and its fallbacks."""
        workers = self.pool.workers
        return tuple([workers[each] for each in self.callees(number)] for number in range(len(workers)))

    def callees(self, number: int) -> Sequence[int]:
        """Return the numbers of a worker and of its fallbacks."""
        return [number, *self.retry.fallbacks_of(number, self.pool)]

    def acts(self, number: int) -> bool:
        """Return whether a step of this worker is an action, as far as the workers know it now."""
        return any(worker.acts for worker in self._called[number])

    def called(self, number: int) -> Sequence[Worker]:
        """Return the worker with this number, and its fallbacks."""
        return self._called[number]

    def asks(self, number: int) -> bool:
        """Return whether a worker is a person."""
        return isinstance(self.pool.workers[number], PersonWorker)

    def asks_only(self, step: AnyStep) -> bool:
        """Return whether a step calls nobody but persons."""
        return all(self.asks(call.worker) for call in calls_in([step]))

    def actions_of(self, plan: Plan) -> tuple[int, ...]:
        """Return the indices of the steps of a plan that are actions, or blocks with actions."""
        return tuple(self.actions_in(plan.steps))

    def actions_in(self, steps: Sequence[AnyStep]) -> list[int]:
        """Return the numbers of the steps that are actions, or blocks with actions."""
        return [n for n, step in enumerate(steps) if any(self.acts(each.worker) for each in calls_in([step]))]

    @cached_property
    def planners(self) -> tuple[Planner, ...]:
        """Every planner that a run may call."""
        return (self.planner,) if self.fallback_planner is None else (self.planner, self.fallback_planner)

    @cached_property
    def parties(self) -> tuple[Card, ...]:
        """The cards of all that may see data: the pool, the planners and the judge."""
        cards = (*(worker.card for worker in self.workers), *(planner.card for planner in self.planners))
        return tuple(card for card in cards if card is not None)

    @cached_property
    def workers(self) -> tuple[Worker, ...]:
        """Every worker that a run may call: the pool, and the judge."""
        judges = (self.accept,) if isinstance(self.accept, Worker) else ()
        return (*self.pool.workers, *judges)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The request of one run; see `RunOptions` for the fields of the same names."""

    run_id: str
    is_new_id: bool = False
    query: tuple[Message, ...] = ()
    context: Mapping[str, str] = field(default_factory=dict)
    plan: Plan | None = None
    """The plan to run; in a resumed run, it replaces the last plan."""
    labels: frozenset[str] = frozenset()
    """The labels of the query, and from the start of the run those of its conversation."""
    asker: str = ""
    client: Mapping[str, Any] | None = None
    user: str = ""
    policy: Policy | None = None
    journal: Journal | None = None
    paid_results: PaidResults | None = None
    tools: Tools | None = None
    sampling: Sampling = Sampling()
    tool_messages: tuple[Message, ...] = ()
    """Tool calls after the query and their results."""
    stream: bool = False
    """Whether the caller reads the events during the run."""
    forecast: bool = False
    middleware: CallMiddleware | None = None
    host: Host | None = None
    caller: Caller | None = None
    """The call that this nested run answers; `None` for a run that a user started."""
    within: Caller | None = None
    """The call of a worker whose code started this run, such as an agent whose model is a conductor.

    The limits, the policy and the labels of the outer run apply to this run. This run has its own id and
    journal. `None` for other runs, and if `caller` is set.
    """
    resumes: bool = False
    """Whether to resume the run even if it has ended, for example with the status `failed`."""
    limits: Limits | None = None
    """Replace the limits of the conductor, and the recorded limits of a resumed run; `None` keeps them."""
    allows: Callable[[float], Awaitable[None]] | None = None
    uses_cache: bool = True
    force: bool = False
    """Whether to resume also a run that raised `RunDead`."""
    refresh: bool = False
    """Whether to run recorded steps again that lacked an input which exists now."""


@dataclass(frozen=True, slots=True)
class PreviousRound:
    """The data that steps with `"previous"` on their access list see."""

    visible: tuple[VisibleStep, ...] = ()
    """The steps of the previous round that have an output, in its plan's order."""
    labels: frozenset[str] = frozenset()
    """The labels of these outputs."""
    is_whole: bool = True
    """Whether these outputs are complete, and were made from complete inputs."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The state that the stages of one run share."""

    settings: ConductorSettings
    request: RunRequest
    ledger: Ledger
    """The ledger, which nested runs share."""
    policy: Policy
    """The policies of conductor and request; in a nested run also `Policy.everywhere` of the outer run."""
    labels: frozenset[str] = frozenset()
    """The labels of the query, and of the data that planners of later rounds have seen."""
    previous: PreviousRound = PreviousRound()
    """The previous round; empty in the first round."""
    earlier: Kept = NO_NEEDS
    """What the plan of an earlier round still needs, which continues if the current round has no answer."""
    journal: Journal | None = None
    """The journal of the run and its nested runs."""
    cache: Cache | None = None
    """Answers that may be reused; `None` disables caching."""
    overlong: Overlong = field(default_factory=Overlong)
    """The answers that were longer than their token limit."""
    paid_results: PaidResults = field(default_factory=PaidResults)
    """Results that are already paid for."""
    exchange: Exchange = field(default_factory=Exchange)
    """The calls of the caller's tools, and their results."""
    actions: ActionLog = field(default_factory=ActionLog)
    """The actions that were begun in this run, the runs around it and its nested runs."""
    depth: int = 0
    """Number of outer runs."""
    emit: Callable[[Event], None] | None = None
    """Called with each event of the run; `None` without listeners."""
    recorded: Callable[[], Awaitable[None]] | None = None
    """Waits until the journal has recorded all events so far, before a call is sent; `None` without a
    journal."""
    span: Callable[..., AbstractContextManager[object]] | None = None
    """Makes the span of a call, by round, step and attempt, the current one; `None` without tracing."""
    clock: Callable[[], float]
    """The event loop's clock, in seconds."""
    began: float
    """Start of the run on the event loop's clock, in a resumed run later by the time of the interruption."""

    @cached_property
    def most_steps(self) -> int:
        """The maximum number of steps of a plan."""
        most = self.settings.limits.plan_steps
        return min(most, self.policy.most_steps or most)

    @cached_property
    def shows_question(self) -> bool:
        """Whether workers see the question in addition to their subtask."""
        return self.settings.show_question and bool(self.request.query)

    def hosted(self, step: Step) -> bool:
        """Return whether the host carries out the calls of a step, those of fallbacks too."""
        host = self.request.host
        return host is not None and any(map(host.takes, self.settings.called(step.worker)))

    def input_of(
        self, worker: Worker, step: Step, visible: Sequence[VisibleStep], template: str = ""
    ) -> StepInput:
        """Return the input of a step's worker; `template` is the subtask before values were filled in."""
        query, most_chars = self.request.query, self.settings.limits.output_chars
        shown = worker.card.remembers(query) if self.shows_question else ()
        if step == self.settings.verbatim and not worker.reads_prose:  # it reads its subtask, and no messages
            return StepInput(query[-1].text, query=tuple(shown))
        texts = self.request.context
        return step_input(worker, step, visible, shown, most_chars=most_chars, texts=texts, template=template)

    def messages(self, step: Step, shown: StepInput, card: Card) -> tuple[Message, ...]:
        """Return the messages for the worker of a step, without those of the caller's tools."""
        if step == self.settings.verbatim:
            return self.request.query
        return worker_messages(shown, card)

    def tool_messages(
        self, step: Step, card: Card, said: Sequence[Message], *, last: bool
    ) -> tuple[Message, ...]:
        """Return the calls of the caller's tools, and their results, for the worker of a step."""
        if step == self.settings.verbatim:
            return self.request.tool_messages
        shown = (*(self.exchange.others if last else ()), *self.exchange.own(said))
        return tuple(for_card(each, card) for each in shown)

    def named_calls(
        self, step: Step, made: Sequence[Part], place: tuple[int, ...], *, nests: bool
    ) -> tuple[Part, ...]:
        """Return calls of the caller's tools with unique ids, by which their results are found.

        Args:
            step: the step.
            made: the calls of its worker.
            place: the numbers of the round, the step and the call of the worker.
            nests: whether the worker is a conductor, whose run has made the ids unique.
        """
        if step == self.settings.verbatim:
            return tuple(made)
        is_inside = self.request.caller is not None and not nests  # other runs may have the same ids
        return self.exchange.unique(made, f"{self.request.run_id}/{place}", always=is_inside)

    @cached_property
    def lends(self) -> bool:
        """Whether the caller's tools are offered to all steps, and not to the last alone.

        They are not if the answer must be a call, if nobody may call, and if the plan was made again after
        earlier calls.
        """
        tools = self.request.tools
        is_free = tools is not None and tools.choice in (None, "auto") and not self.exchange.others
        return is_free and bool(self.tool_names)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the caller's tools that are not for the last step alone."""
        tools = None if self.request.tools is None else self.request.tools.of_step(None, last=False)
        return () if tools is None else tools.names

    def offered(self, step: Step, number: int, *, last: bool) -> Tools | None:
        """Return the caller's tools that a worker may call for a step; `None` for none."""
        tools = self.request.tools
        if tools is None or not (last or self.lends) or not self._takes_tools(number):
            return None
        return tools.of_step(step.tools, last=last) if self.lends else tools

    def may_call(self, number: int) -> bool:
        """Return whether a worker, or one of its fallbacks, may call tools of the caller in any step."""
        return self.lends and any(map(self._takes_tools, self.settings.callees(number)))

    def _takes_tools(self, number: int) -> bool:
        pool = self.settings.pool
        return pool.workers[number].takes_tools and self.policy.lends(pool.cards[number])

    def needs_plan(self, step: Step) -> bool:
        """Return whether a plain step starts only when its plan is complete: the caller's tools may act."""
        return (step.tools != () and self.may_call(step.worker)) or self.hosted(step)

    @cached_property
    def last_step_differs(self) -> bool:
        """Whether the request has tools, tool messages or sampling settings for the plan's last step."""
        request = self.request
        return request.tools is not None or bool(request.tool_messages) or request.sampling != _PLAIN

    def tell(self, kind: Callable[..., Event], /, **facts: object) -> None:
        """Emit an event of this run, if there are listeners."""
        if self.emit is not None:
            self.emit(kind(run_id=self.request.run_id, at=self.now(), **facts))

    def tell_step_ended(self, outcome: Outcome, key: str = "", took: Action | None = None) -> None:
        """Emit `StepEnded`; `key` is the hash of its input, and `took` an action that it takes."""
        if self.emit is not None:
            ids = {"round": outcome.round, "step": outcome.step, "attempt": outcome.attempts}
            self.tell(StepEnded, **ids, outcome=outcome, key=key, took=took)

    def during(self, *ids: int) -> AbstractContextManager[object]:
        """Return a context manager for a call."""
        return _NO_SPAN if self.span is None else self.span(*ids)

    def now(self) -> float:
        """Return the seconds from the start of the run until now, without the time of interruptions."""
        return self.clock() - self.began


class WorkerRun(NamedTuple):
    """An ended run that a worker's code started: the fields of `WorkerRunEnded`."""

    nested: str
    status: str
    calls: int
    steps: int
    actions: tuple[Action, ...]


@dataclass(slots=True)
class OuterRun:
    """A call of a worker, and its run, as the runs nested in this call see them."""

    context: RunContext
    ledgers: list[Ledger] = field(default_factory=list)
    """The ledgers of the nested runs, which give the cost of a call without a complete response."""
    actions: list[ActionLog] = field(default_factory=list)
    """The actions of the nested runs."""
    reservation: Reservation | None = None
    """The call's reservation; `None` until the call is made."""
    runs: OpenTasks = field(default_factory=OpenTasks)
    """The unfinished runs that the worker's code has started; closed when the call has ended."""
    ended: list[WorkerRun] = field(default_factory=list)
    """The ended runs that the worker's code started."""
    is_stopped: bool = False
    """Whether the call was stopped by a limit, a cancellation, or another step's failure. A synchronous
    function continues in its thread, but cannot start further runs."""
    answered: list[Ledger] = field(default_factory=list)
    """The ledgers of nested runs that have an answer, whose usage the worker may report as its own."""
    gaps: list[str] = field(default_factory=list)
    """The statuses and problems of nested runs that are not `ok`."""


def outer_run(caller: Caller | None) -> OuterRun | None:
    """Return the `OuterRun` of a call; `None` for a call outside of a run."""
    outer = None if caller is None else caller.outer
    return outer if isinstance(outer, OuterRun) else None


_call: ContextVar[Caller | None] = ContextVar("podium_call", default=None)


@contextmanager
def answering(caller: Caller | None) -> Iterator[None]:
    """Make the runs that start in the block nested runs of this call; with `None`, of no call."""
    token = _call.set(caller)
    try:
        yield
    finally:
        _call.reset(token)


def outside_of_calls() -> AbstractContextManager[None]:
    """Return a context manager; runs that start in its block are not nested."""
    return answering(None)


def current_call() -> Caller | None:
    """Return the call whose worker runs this code; `None` outside of calls and after their end."""
    outer = outer_run(caller := _call.get())
    if outer is not None and outer.is_stopped:
        raise CancelledError("the worker's call was stopped, so its code cannot start a run")
    return None if outer is None or outer.runs.is_closed else caller
