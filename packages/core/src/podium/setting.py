"""What is the same for all steps of one run, and how its events are sent."""

from collections.abc import Callable
from dataclasses import dataclass

from podium.events import Event
from podium.limits import Ledger, Limits
from podium.messages import Message
from podium.workers.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run, as its stages see it."""

    run_id: str
    query: tuple[Message, ...]
    pool: Pool
    limits: Limits
    ledger: Ledger
    """Shared with the runs nested in this one."""
    emit: Callable[[Event], None] | None
    """Takes the run's events; `None` where nobody listens."""
    depth: int = 0
    """How many runs this one is nested in."""
    stream: bool = False
    """Whether anyone reads along."""
    show_question: bool = True
    """Whether workers are shown the question besides their subtask."""
    clock: Callable[[], float]
    """Tells the time of the event loop, in seconds; found once, since it is asked at every turn."""
    began: float
    """When the run began, on that clock."""

    def tell(self, kind: Callable[..., Event], **facts: object) -> None:
        """Emit an event of this run; where nobody listens, none is made."""
        if self.emit is not None:
            self.emit(kind(run_id=self.run_id, at=self.now(), **facts))

    def now(self) -> float:
        """Return the seconds since the run began."""
        return self.clock() - self.began
