"""The request for the approval of a plan, and its possible answers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from podium.types.forecast import Forecast
from podium.types.messages import Message
from podium.types.outcome import Action
from podium.types.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A plan that waits for approval, none of whose steps has started; or one action of a plan."""

    run_id: str
    round: int
    """From 1."""
    plan: Plan
    workers: tuple[str, ...]
    """Names of the pool's workers, in the order of the plan's worker numbers."""
    query: tuple[Message, ...] = ()
    """The conversation; empty if the caller gave a plan without a query."""
    actions: tuple[int, ...] = ()
    """Indices of the steps that are actions."""
    action: Action | None = None
    """The action that waits for approval; `None` if the whole plan waits."""
    labels: frozenset[str] = frozenset()
    """The labels of the data that every step sees; in the first round, the labels of the query."""
    forecast: Forecast
    """The expected calls, tokens, cost and time of the plan."""


Verdict = bool | str | Plan
"""`True` approves the plan or the action; `False` or a text with the reason rejects it; a plan replaces the
waiting plan."""
Asked = Callable[[ApprovalRequest], Verdict | Awaitable[Verdict]]
"""A function that decides; a synchronous function runs in a thread."""
Approve = Asked | Literal["later"]
"""A function that decides, or `"later"`: the run stops and waits in its journal for `Conductor.decide`."""
