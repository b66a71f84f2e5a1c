"""One job that this process executes, and the interface of the work that it does."""

from collections.abc import Mapping
from typing import Literal, Protocol

import anyio

from podium.types import Result
from podium_server.jobs.table import StoredJob

Why = Literal["cancelled", "abandoned", "stopped", "lost"]
"""Why a job ends before its work: somebody cancelled it, the client disconnected before it began, the server
stops, or another process has the job."""


class JobLost(Exception):
    """Another process has the job, or its work was deleted."""


class Postponed(Exception):
    """The job returns to the queue at once, and continues when a process takes it again."""


class Job:
    """A job that this process executes.

    Args:
        stored: its row.
        holder: the name under which this process holds it.
        is_new: whether a request waits for its beginning.
    """

    def __init__(self, stored: StoredJob, holder: str, *, is_new: bool = False) -> None:
        self.stored = stored
        self.holder = holder
        self.is_new = is_new
        self.is_stored = not is_new
        self.is_admitted = False
        """Whether the work was admitted, so that it may have been paid for."""
        self.needs_slot = True
        """Whether the job counts against the maximum number of jobs; not while it waits for a decision."""
        self.scope = anyio.CancelScope()
        self.why: Why | None = "cancelled" if stored.is_cancelled else None
        """Why the work was cancelled; `None` if it was not."""
        self.has_begun = False
        self.headers: Mapping[str, str] = {}
        """Headers for the client whose request began the job."""
        self.refusal: Exception | None = None
        """Why a new job did not begin."""
        self.result: Result | None = None
        """The result of the run, after it has ended; `None` also for a run that ended without one."""
        self.decided = anyio.Event()
        """Set when the work has begun, or has ended."""

    @property
    def job_id(self) -> str:
        """The id of the run."""
        return self.stored.job_id

    def begin(self, headers: Mapping[str, str] | None = None) -> None:
        """Tell the client whose request began the job that the work has begun."""
        if not self.has_begun:
            self.has_begun, self.headers = True, headers or {}
            self.decided.set()

    def cancel(self, why: Why) -> None:
        """Cancel the work."""
        self.why = self.why or why
        self.scope.cancel()


class Work(Protocol):
    """The work of one job."""

    async def run(self) -> None:
        """Do the work: begin it, or continue it.

        Raises:
            JobLost: another process has the job.
            Postponed: the work continues later.
            Exception: the work failed; `jobs.failures` says whether it is tried again.
        """

    async def end(self, failure: Exception | None) -> Mapping[str, str] | None:
        """Write the end of work that was cancelled, or failed for good.

        Args:
            failure: the failure; `None` if the work was cancelled.

        Returns:
            The `code` and the `message` to keep; `None` if clients can read the end elsewhere.
        """

    async def drop(self) -> None:
        """Delete what was stored for a new job that was refused before it began."""
