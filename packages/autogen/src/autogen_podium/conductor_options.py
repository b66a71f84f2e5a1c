"""The options of all classes that wrap a conductor, and the creation of their conductor."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypedDict

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.execution import Accept, OnFailure, Retry
from podium.hosts.workers import make_conductor
from podium.journal import Cache, Journal
from podium.planners import Planner
from podium.policy import Policy
from podium.workers import Card, Worker


class ConductorOptions(TypedDict, total=False):
    """Options of `podium.Conductor`, with the same meanings and defaults.

    `fallback_planner` may also be a model client.
    """

    limits: Limits | None
    fallback_planner: object
    direct: bool
    accept: Accept | None
    policy: Policy | None
    labels: Collection[str]
    retry: Retry | None
    on_failure: OnFailure
    cache: Cache | Literal["run"] | None
    journal: Journal | None
    show_question: bool
    warm_prefix: bool


def conductor_of(  # noqa: PLR0913 - the differences between two frameworks
    participants: Sequence[Any] | Conductor,
    planner: object,
    *,
    card: Card,
    as_worker: Callable[[Any], Worker],
    as_planner: Callable[[Any], Planner],
    options: ConductorOptions,
    face: str,
) -> Conductor:
    """Return the conductor of a wrapper class: a new one, or the given one.

    Args:
        participants: execute the steps; or the conductor.
        planner: a planner, or an object that `as_planner` accepts.
        card: the conductor's card, for pools that contain it.
        as_worker: makes a worker of a participant.
        as_planner: makes a planner of a model.
        options: further options of `podium.Conductor`.
        face: the name of the caller's class, for errors.

    Raises:
        ConfigError: an option is invalid, or both a conductor and options are given.
        TypeError: an option is unknown.
    """
    if not isinstance(participants, Conductor):
        workers = [as_worker(participant) for participant in participants]
        return make_conductor(planner, workers, {**options, "card": card}, as_planner=as_planner, face=face)
    if planner is not None or options:
        raise ConfigError("a planner and options cannot be given with a podium.Conductor: it has its own")
    return participants
