"""What may be said of one run besides what is asked."""

from collections.abc import Iterable, Sequence
from typing import TypedDict

from podium.execution.external_scheduler import StepStarter
from podium.journal.journal import Journal
from podium.policy import Policy
from podium.resume.paid_results import PaidResults
from podium.types.messages import Part, Sampling, Tools
from podium.workers.worker import CallMiddleware


class RunOptions(TypedDict, total=False):
    """Facts about one run; most are left out."""

    run_id: str | None
    """What the journal is to call the run. The same id and query twice are one run: the second
    waits for the first, or goes on where that broke off. `None`, as it is, makes an id."""
    labels: Iterable[str]
    """Properties of the query that the policy's rules refer to; none, as it is."""
    policy: Policy | None
    """Holds beside the conductor's own; `None`, as it is, adds nothing."""
    paid_results: PaidResults | None
    """What the run finds paid for already; `None`, as it is, finds nothing."""
    forecast: bool
    """Whether to reckon beforehand what the first plan will take, which the result then compares
    with what it took; `False`, as it is."""
    journal: Journal | None
    """Where the run is recorded, in place of the conductor's own journal; `None`, as it is, records
    it there."""
    tools: Tools | Sequence[Part]
    """Offered to the worker of the plan's last step, if it takes any: it may answer with calls of
    them, which are in `Result.tool_calls` and the caller's to make. Nothing starts before the plan
    is whole then. None, as it is."""
    sampling: Sampling
    """How that worker is to write, over what it does by itself."""
    middleware: CallMiddleware | None
    """Calls the workers, and the model of a planner, in place of the run; `None`, as it is, calls them."""
    step_starter: StepStarter | None
    """Starts the steps of each plan in place of the run; `None`, as it is, starts each as soon as
    those it is shown have ended."""
