"""The three records a run is carried out by: its conductor's settings, its request, its context."""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from podium.aio.open_tasks import OpenTasks
from podium.budget.ledger import Ledger, Reservation
from podium.budget.limits import Limits
from podium.execution.external_scheduler import StepStarter
from podium.execution.retry_policy import OnFailure, Retry
from podium.journal.answer_cache import Cache
from podium.journal.journal import Journal
from podium.planners.planner import Planner
from podium.policy import Policy
from podium.resume.paid_results import PaidResults
from podium.types.events import Event, StepEnded
from podium.types.messages import Message, Sampling, Tools
from podium.types.outcome import Outcome
from podium.types.plan import Plan
from podium.workers.pool import Pool
from podium.workers.worker import Caller, CallMiddleware, VisibleStep, Worker
from podium.workers.worst_case import Overlong

Accept = Worker | Callable[[str, str], bool | str | Awaitable[bool | str]]
"""Judges an answer: a worker that is asked for YES or NO, or a function of question and answer.

The function returns `True`, `False`, or a text that says what is wrong; an empty text accepts the answer."""

_NO_SPAN = nullcontext()
_PLAIN = Sampling()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorSettings:
    """What all runs of one conductor share."""

    name: str
    """The conductor's name."""
    pool: Pool
    planner: Planner
    fallback_planner: Planner | None = None
    """Plans the first round when `planner` gave no plan; `None` has the run fail then."""
    limits: Limits
    accept: Accept | None = None
    policy: Policy = Policy()
    retry: Retry = Retry()
    on_failure: OnFailure = "note"
    cache: Cache | Literal["run"] | None = None
    journal: Journal | None = None
    show_question: bool = True
    """Whether workers are shown the question besides their subtask."""

    @property
    def planners(self) -> tuple[Planner, ...]:
        """Every planner that a run may call."""
        return (self.planner,) if self.fallback_planner is None else (self.planner, self.fallback_planner)

    @property
    def workers(self) -> tuple[Worker, ...]:
        """Every worker that a run may call: the pool, and a judge."""
        return (*self.pool, self.accept) if isinstance(self.accept, Worker) else tuple(self.pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run, as it was asked for."""

    run_id: str
    is_new_id: bool = False
    """Whether the id was just generated, so that no journal can hold it."""
    query: tuple[Message, ...] = ()
    context: Mapping[str, str] = field(default_factory=dict)
    """Named texts that subtasks may refer to."""
    plan: Plan | None = None
    """The plan to carry out; of a resumed run, in place of its last plan."""
    labels: frozenset[str] = frozenset()
    """The labels of the query."""
    policy: Policy | None = None
    """Holds besides the conductor's policy; `None` adds nothing."""
    journal: Journal | None = None
    """Records the run in place of the conductor's journal; `None` means that journal."""
    paid_results: PaidResults | None = None
    """Results that are paid for already; `None` means none."""
    tools: Tools | None = None
    """Offered to the worker of the plan's last step."""
    sampling: Sampling = Sampling()
    """Sampling of the worker of the plan's last step."""
    tool_messages: tuple[Message, ...] = ()
    """Tool calls after the query and their results, shown to the worker of the plan's last step."""
    stream: bool = False
    """Whether the caller reads the events while the run goes on."""
    forecast: bool = False
    """Whether the first plan is forecast, for comparison in the result."""
    middleware: CallMiddleware | None = None
    """Wraps each call of a worker; `None` calls the worker itself."""
    step_starter: StepStarter | None = None
    """Starts the steps of each plan; `None` leaves that to the run's own scheduler."""
    caller: Caller | None = None
    """The call that a nested run answers; `None` for a run of a user."""
    within: Caller | None = None
    """The call of a worker whose code began the run, as an agent does whose model is a conductor. The run
    is held to the limits and the policy of the run around it, and has its labels; its id and its journal
    are its own. `None` for a run that was begun elsewhere, and where `caller` is set."""
    resumes: bool = False
    """Whether the run goes on even if it has ended, for example as failed."""
    limits: Limits | None = None
    """Replace the limits of a resumed run; `None` keeps those that it was begun with."""
    force: bool = False
    """Whether a run that was given up as dead is resumed, too."""


@dataclass(frozen=True, slots=True)
class PreviousRound:
    """What steps with `"previous"` on their access list are shown."""

    visible: tuple[VisibleStep, ...] = ()
    """The steps of the round before that have an output, in its plan's order."""
    labels: frozenset[str] = frozenset()
    """The labels of these outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """One run while it is carried out: what its stages share."""

    settings: ConductorSettings
    request: RunRequest
    ledger: Ledger
    """Shared with the runs nested in this one."""
    policy: Policy
    """The conductor's policy, the request's, and what holds everywhere of an outer run's."""
    labels: frozenset[str] = frozenset()
    """The labels that the query carries, and those of what later rounds were told."""
    previous: PreviousRound = PreviousRound()
    """The round before; empty in the first round."""
    journal: Journal | None = None
    """Where the run is recorded, and the runs nested in it."""
    cache: Cache | None = None
    """Answers that may be used again; `None` uses none."""
    overlong: Overlong = field(default_factory=Overlong)
    """Answers that were longer than their bound."""
    paid_results: PaidResults | None = None
    """Results that are paid for already; `None` where nothing ran before and nothing is recorded."""
    depth: int = 0
    """How many runs this one is nested in."""
    emit: Callable[[Event], None] | None = None
    """Takes the run's events; `None` where nobody listens."""
    recorded: Callable[[], Awaitable[None]] | None = None
    """Waits until the journal holds every event so far; `None` where nothing is recorded. No call is sent
    before that."""
    span: Callable[..., AbstractContextManager[object]] | None = None
    """Makes the span of a call the current one, by round, step and attempt; `None` without tracing."""
    clock: Callable[[], float]
    """The event loop's clock, in seconds."""
    began: float
    """When the run began, on that clock; of a resumed run, as if it had never rested."""

    @property
    def shows_question(self) -> bool:
        """Whether workers are shown the question besides their subtask."""
        return self.settings.show_question and bool(self.request.query)

    @property
    def last_step_differs(self) -> bool:
        """Whether the worker of the plan's last step gets tools, tool messages or sampling of its own."""
        request = self.request
        return request.tools is not None or bool(request.tool_messages) or request.sampling != _PLAIN

    def tell(self, kind: Callable[..., Event], **facts: object) -> None:
        """Emit an event of this run; without a listener, none is made."""
        if self.emit is not None:
            self.emit(kind(run_id=self.request.run_id, at=self.now(), **facts))

    def tell_step_ended(self, outcome: Outcome, key: str = "") -> None:
        """Emit that a step ended; `key` stands for the step by its content."""
        if self.emit is not None:
            ids = {"round": outcome.round, "step": outcome.step, "attempt": outcome.attempts}
            self.tell(StepEnded, **ids, outcome=outcome, key=key)

    def during(self, *ids: int) -> AbstractContextManager[object]:
        """Return a block in which a call is made: of round, step and attempt, or of the round's planner."""
        return _NO_SPAN if self.span is None else self.span(*ids)

    def now(self) -> float:
        """Return the seconds for which the run was carried out."""
        return self.clock() - self.began


@dataclass(slots=True)
class OuterRun:
    """The run that nested runs belong to; a conductor that works as a worker finds it in its caller."""

    context: RunContext
    ledgers: list[Ledger] = field(default_factory=list)
    """The ledgers of the runs nested in the call. They say what it cost if it does not end."""
    reservation: Reservation | None = None
    """What is set aside for the call; `None` until it is made."""
    runs: OpenTasks = field(default_factory=OpenTasks)
    """The runs that the worker's code has begun and that go on; closed when the call has ended. A run
    that the code begins later is not nested in the call."""
    is_stopped: bool = False
    """Whether the call was stopped: by a limit, a cancel, or another step that failed. Its code goes on
    where it is a plain function in a thread, and begins no further run."""
    answered: list[Ledger] = field(default_factory=list)
    """Those of `ledgers` whose run had an answer. What the worker reports may hold what these spent; of a run
    that raised, its code knows nothing."""
    gaps: list[str] = field(default_factory=list)
    """How runs that the worker's code began ended, where they were not `ok`. The text that it makes of them
    does not say so."""


def outer_run(caller: Caller | None) -> OuterRun | None:
    """Return the run that a call belongs to; `None` for a call outside of a run."""
    outer = None if caller is None else caller.outer
    return outer if isinstance(outer, OuterRun) else None


_call: ContextVar[Caller | None] = ContextVar("podium_call", default=None)


@contextmanager
def answering(caller: Caller | None) -> Iterator[None]:
    """Have the runs that are begun in the block belong to this call; `None`: to no call."""
    token = _call.set(caller)
    try:
        yield
    finally:
        _call.reset(token)


def outside_of_calls() -> AbstractContextManager[None]:
    """Return a block whose runs belong to no call of a worker: they have limits of their own."""
    return answering(None)


def current_call() -> Caller | None:
    """Return the call of a worker whose code runs here; `None` elsewhere, and after the call has ended.

    Raises:
        CancelledError: the call was stopped, and its code, which goes on in a thread, would begin a run.
    """
    outer = outer_run(caller := _call.get())
    if outer is not None and outer.is_stopped:
        raise CancelledError("the call of the worker whose code would begin this run was stopped")
    return None if outer is None or outer.runs.is_closed else caller
