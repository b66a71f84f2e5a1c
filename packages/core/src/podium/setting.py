"""What is the same for all steps of one run, and how its events are sent."""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

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
    emit: Callable[[Event], None]
    depth: int = 0
    """How many runs this one is nested in."""
    stream: bool = False
    """Whether anyone reads along."""
    show_question: bool = True
    """Whether workers are shown the question besides their subtask."""
    began: float = field(default_factory=anyio.current_time)
    """When the run began, on the event loop's clock, in seconds."""

    def now(self) -> float:
        """Return the seconds since the run began."""
        return anyio.current_time() - self.began
