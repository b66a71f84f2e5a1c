"""What somebody who approves plans is given, and what they may say."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from podium.types.forecast import Forecast
from podium.types.messages import Message
from podium.types.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A plan that waits for being approved. Nothing of it has been started."""

    run_id: str
    round: int
    """From 1."""
    plan: Plan
    workers: tuple[str, ...]
    """Names of the pool's workers, which the plan numbers."""
    query: tuple[Message, ...] = ()
    """The conversation; empty where a plan was given without one."""
    labels: frozenset[str] = frozenset()
    """Those every step is shown, which are the query's in a first round."""
    forecast: Forecast
    """What the plan may come to."""


Verdict = bool | str | Plan
"""`True` approves the plan; `False`, or a text that says why, refuses it; a plan is approved in its place."""
Asked = Callable[[ApprovalRequest], Verdict | Awaitable[Verdict]]
"""A function that is asked; one that is not async runs in a thread."""
Approve = Asked | Literal["later"]
"""Who approves: a function, or somebody out of band, for whom the run waits in its journal."""
