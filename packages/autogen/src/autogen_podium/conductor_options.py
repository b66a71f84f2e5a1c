"""What every face of a conductor takes besides its participants, and how it makes its conductor."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, cast

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.execution import Accept, OnFailure, Retry
from podium.journal import Cache, Journal
from podium.planners import Planner
from podium.policy import Policy
from podium.workers import Card, Worker


class ConductorOptions(TypedDict, total=False):
    """Options of `podium.Conductor`, with its meanings and defaults.

    `fallback_planner` takes all that can plan, as a model client.
    """

    limits: Limits | None
    fallback_planner: object
    direct: bool
    accept: Accept | None
    policy: Policy | None
    retry: Retry | None
    on_failure: OnFailure
    cache: Cache | None
    journal: Journal | None
    show_question: bool


def make_conductor(
    participants: Sequence[Any] | Conductor,
    model: object,
    *,
    card: Card,
    as_worker: Callable[[Any], Worker],
    as_planner: Callable[[Any], Planner],
    options: ConductorOptions,
) -> Conductor:
    """Return the conductor of a face: a new one, or the one that was given.

    Args:
        participants: do the steps; or the conductor.
        model: plans.
        card: what a pool that the conductor is put into says of it.
        as_worker: makes a worker of a participant.
        as_planner: makes a planner of the model.
        options: what else `podium.Conductor` takes.

    Raises:
        ConfigError: an option is wrong, or there is a conductor and parts of another.
    """
    if not isinstance(participants, Conductor):
        workers = [as_worker(participant) for participant in participants]
        given = dict(options)
        if (fallback := given.pop("fallback_planner", None)) is not None:
            given["fallback_planner"] = _fallback(fallback, as_planner)
        return Conductor(as_planner(model), workers, card=card, **cast("Any", given))
    if model is not None or options:
        raise ConfigError(
            "a planner, limits or a policy beside a podium.Conductor do not count: it has its own"
        )
    return participants


def _fallback(model: object, as_planner: Callable[[Any], Planner]) -> Planner:
    try:
        return as_planner(model)
    except ConfigError as error:
        told = f"fallback_planner={model!r:.80} plans nothing"
        raise ConfigError(
            f"{told}: give a model client, a worker, or a planner that as_planner made"
        ) from error
