"""What is the same for all steps of one run, and how its events are sent."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

from podium.budget.ledger import Ledger
from podium.budget.limits import Limits
from podium.execution.retry_policy import Retry
from podium.journal.answer_cache import Cache
from podium.journal.journal import Journal
from podium.policy import Policy
from podium.resume.paid_results import PaidResults
from podium.types.events import Event
from podium.types.messages import Message, Sampling, Tools
from podium.workers.pool import Pool
from podium.workers.worker import CallMiddleware

OnFailure = Literal["skip", "note", "replan", "fail"]
"""What becomes of the steps that are shown one that failed: they are skipped; they are
run with the gap stated; another round is planned; or the whole run ends there."""

_NOTHING = nullcontext()
_PLAIN = Sampling()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """One run, as its stages see it."""

    run_id: str
    query: tuple[Message, ...]
    pool: Pool
    limits: Limits
    ledger: Ledger
    """Shared with the runs nested in this one."""
    emit: Callable[[Event], None] | None
    """Takes the run's events; `None` where nobody listens."""
    policy: Policy = Policy()
    labels: frozenset[str] = frozenset()
    """The labels the query carries."""
    retry: Retry = Retry()
    on_failure: OnFailure = "skip"
    cache: Cache | None = None
    """Answers that may be used again; `None` asks for all of them."""
    paid_results: PaidResults | None = None
    """What is paid for already; `None` where no run came before, and none is recorded."""
    journal: Journal | None = None
    """Where runs nested in this one are recorded too."""
    depth: int = 0
    """How many runs this one is nested in."""
    stream: bool = False
    """Whether anyone reads along."""
    tools: Tools | None = None
    """Offered to the worker of the plan's last step."""
    sampling: Sampling = Sampling()
    """How that worker is to write."""
    turns: tuple[Message, ...] = ()
    """What that worker is shown after all else: calls of tools, and what these returned."""
    middleware: CallMiddleware | None = None
    """How workers are called; `None` calls them."""
    show_question: bool = True
    """Whether workers are shown the question besides their subtask."""
    within: Callable[..., AbstractContextManager[object]] | None = None
    """Makes the span of a call the current one, by round, step and attempt; `None` where nobody traces."""
    clock: Callable[[], float]
    """Tells the time of the event loop, in seconds; found once, since it is asked at every turn."""
    began: float
    """When the run began, on that clock."""

    @property
    def writes_apart(self) -> bool:
        """Whether the worker that writes the answer is asked otherwise than those before it."""
        return self.tools is not None or bool(self.turns) or self.sampling != _PLAIN

    def tell(self, kind: Callable[..., Event], **facts: object) -> None:
        """Emit an event of this run; where nobody listens, none is made."""
        if self.emit is not None:
            self.emit(kind(run_id=self.run_id, at=self.now(), **facts))

    def during(self, *ids: int) -> AbstractContextManager[object]:
        """Return a block in which a call is made: of round, step and attempt, or of the round's planner."""
        return _NOTHING if self.within is None else self.within(*ids)

    def now(self) -> float:
        """Return the seconds since the run began."""
        return self.clock() - self.began
