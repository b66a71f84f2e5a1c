"""What a run is asked to do, and by whom: pure data."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from podium.budget.limits import Limits
from podium.execution.external_scheduler import StepStarter
from podium.execution.retry_policy import Retry
from podium.execution.run_context import OnFailure
from podium.journal.answer_cache import Cache
from podium.journal.journal import Journal
from podium.policy import Policy
from podium.resume.paid_results import PaidResults
from podium.run.acceptance import Accept
from podium.run.planning import Planners
from podium.types.messages import Message, Sampling, Tools
from podium.types.plan import Plan
from podium.workers.pool import Pool
from podium.workers.worker import Caller, CallMiddleware, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorSettings:
    """Who works for a conductor, and by which rules; the same for all of its runs."""

    name: str
    """The conductor's."""
    pool: Pool
    planners: Planners
    limits: Limits
    accept: Accept | None
    policy: Policy
    retry: Retry
    on_failure: OnFailure
    cache: Cache | Literal["run"] | None
    journal: Journal | None
    show_question: bool

    @property
    def workers(self) -> tuple[Worker, ...]:
        """Everyone a run may call: the pool, and a judge."""
        return (*self.pool, self.accept) if isinstance(self.accept, Worker) else tuple(self.pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run, as it was asked for."""

    run_id: str
    is_minted: bool
    """Whether the id was made for it, so that no journal can hold it."""
    query: tuple[Message, ...] = ()
    plan: Plan | None = None
    """What is to be carried out; of a run that is resumed, in place of its last plan."""
    labels: frozenset[str] = frozenset()
    policy: Policy | None = None
    """Beside the conductor's own; `None` adds nothing."""
    caller: Caller | None = None
    stream: bool = False
    forecasts: bool = False
    """Whether what the first plan will take is reckoned beforehand, to be compared in the result."""
    paid_results: PaidResults | None = None
    """What a new run finds paid for already; `None` finds nothing."""
    journal: Journal | None = None
    """Where the run is recorded, in place of the conductor's journal; `None` leaves it there."""
    tools: Tools | None = None
    """Offered to the worker that writes the answer."""
    sampling: Sampling = Sampling()
    """How the worker that writes the answer is to write."""
    turns: tuple[Message, ...] = ()
    """Calls of tools after the query, and what they returned."""
    middleware: CallMiddleware | None = None
    """How workers are called; `None` calls them."""
    step_starter: StepStarter | None = None
    """Who starts the steps of each plan; `None` leaves that to the run."""
    resumes: bool = False
    """Whether it goes on even where it has come to an end, as one that failed."""
    force: bool = False


def nested_id(caller: Caller, key: str) -> str:
    """Return the id of the run a conductor starts as a worker: the same if it is asked the same again.

    Args:
        caller: whom it answers.
        key: what stands for what it is asked.
    """
    told = f"{caller.run_id}/{caller.round}/{caller.step}/{key}"
    return sha256(told.encode()).hexdigest()[:32]
