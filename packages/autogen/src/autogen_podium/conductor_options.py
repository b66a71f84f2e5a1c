"""What every face of a conductor takes besides its participants, and how it makes its conductor."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.execution import Accept, OnFailure, Retry
from podium.hosts import make_conductor
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
    cache: Cache | Literal["run"] | None
    journal: Journal | None
    show_question: bool


def conductor_of(  # noqa: PLR0913 - what the faces of two frameworks differ in
    participants: Sequence[Any] | Conductor,
    planner: object,
    *,
    card: Card,
    as_worker: Callable[[Any], Worker],
    as_planner: Callable[[Any], Planner],
    options: ConductorOptions,
    face: str,
) -> Conductor:
    """Return the conductor of a face: a new one, or the one that was given.

    Args:
        participants: do the steps; or the conductor.
        planner: plans: a planner, or what `as_planner` takes.
        card: what a pool that the conductor is put into says of it.
        as_worker: makes a worker of a participant.
        as_planner: makes a planner of a model.
        options: what else `podium.Conductor` takes.
        face: the class that the caller makes, for an error.

    Raises:
        ConfigError: an option is wrong, or there is a conductor and parts of another.
        TypeError: there is no such option.
    """
    if not isinstance(participants, Conductor):
        workers = [as_worker(participant) for participant in participants]
        return make_conductor(planner, workers, {**options, "card": card}, as_planner=as_planner, face=face)
    if planner is not None or options:
        raise ConfigError(
            "a planner, limits or a policy beside a podium.Conductor do not count: it has its own"
        )
    return participants
