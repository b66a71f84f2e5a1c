"""How a conductor differs from its config."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podium.execution.retry import Retry
from podium.journal.journal import Journal
from podium.plan_text.saved import SavedPlan
from podium.policy import Policy
from podium.policy.policy import Asked
from podium.workers.pool import Pool
from podium.workers.worker import Card, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The differences from the conductor of a config; `None` means no difference."""

    card: Card | None = None
    """The card of the conductor, whose name its runs record."""
    workers: Sequence[str] | None = None
    """Names of the tables `[workers.NAME]` whose workers are in the pool."""
    verbatim: bool = False
    """Whether the one worker is sent each conversation unchanged, without a planner and a judge."""
    accept: Worker | None = None
    """Judges each answer."""
    plan: SavedPlan | None = None
    """The saved plan that answers each question, which has its arguments; see `FixedPlanner`."""
    direct: bool | str | None = None
    """See `Conductor`."""
    journal: Journal | None = None
    """Records the runs, so that several conductors can share a journal."""
    approve: Asked | None = None
    """Decides in place of the `approve` of `[policy]`."""


def retry_within(retry: Retry, pool: Pool) -> Retry:
    """Return the retries for a part of the workers: without fallbacks that are not in the pool."""
    fallbacks = {
        name: known
        for name, others in retry.fallbacks.items()
        if name in pool.names and (known := [other for other in others if other in pool.names])
    }
    shared = {
        label for label in retry.fallback_labels if sum(label in card.labels for card in pool.cards) > 1
    }
    best = [name for name in retry.next_best if name in pool.names]
    return replace(retry, fallbacks=fallbacks, fallback_labels=frozenset(shared), next_best=best)


def policy_within(policy: Policy, pool: Pool, workers: Sequence[Worker]) -> Policy:
    """Return the policy for a part of the workers: without the pins to the other workers."""
    gone = {worker.card.name for worker in workers} - {*pool.names}
    return replace(policy, pins=[pin for pin in policy.pins if pin.worker not in gone])
