"""Workers: the seam, what passes over it, and the workers that come with Podium."""

from podium.messages import Completion
from podium.workers.calculator import Calculator
from podium.workers.documents import Documents
from podium.workers.gather import Gather
from podium.workers.timeouts import Timeouts
from podium.workers.worker import FREE, Brief, Caller, Request, Shown, Through, Worker, brief_of, complete

__all__ = [
    "FREE",
    "Brief",
    "Calculator",
    "Caller",
    "Completion",
    "Documents",
    "Gather",
    "Request",
    "Shown",
    "Through",
    "Timeouts",
    "Worker",
    "brief_of",
    "complete",
]
