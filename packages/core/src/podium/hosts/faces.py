"""What all classes of hosts that wrap a conductor share: its options, its creation, the names of its runs."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, TypedDict

from podium.budget import Limits
from podium.conductor import CARD, Conductor
from podium.errors import ConfigError
from podium.execution import Accept, OnFailure, Retry
from podium.hosts.continuation import place_of, session_run_id
from podium.hosts.workers import check_options
from podium.journal import Cache, Journal, MemoryJournal
from podium.plan_text.saved import SavedPlan
from podium.planners import Planner
from podium.policy import Policy
from podium.run import RunOptions
from podium.types import Message
from podium.workers import Card, Pool, Worker


class ConductorOptions(TypedDict, total=False):
    """Options of `podium.Conductor`, with the same meanings and defaults.

    `fallback_planner` may also be a model of the host. Without a `journal`, runs that wait for a person wait
    in memory.
    """

    workflows: bool
    """Whether a planner that is a model of the host is asked for workflows, too: maps, conditions, loops."""
    limits: Limits | None
    fallback_planner: object
    direct: bool | str
    accept: Accept | None
    policy: Policy | None
    labels: Collection[str]
    retry: Retry | None
    on_failure: OnFailure
    cache: Cache | Literal["run"] | None
    journal: Journal | None
    show_question: bool
    warm_prefix: bool
    plans: Collection[SavedPlan]


def conductor_of(  # noqa: PLR0913 - the differences between hosts
    conductor: object,
    planner: object,
    workers: Sequence[Any],
    options: Mapping[str, Any],
    *,
    card: Card = CARD,
    as_worker: Callable[[Any], Worker],
    as_planner: Callable[..., Planner],
    face: str,
    takes: Iterable[str] = (),
    stores: bool = False,
) -> Conductor:
    """Return the given conductor, or make one of a planner and workers, which may be objects of the host.

    Without a journal, runs that wait for a person wait in memory, unless the host `stores` them itself.

    Args:
        conductor: the conductor, or `None`.
        planner: a planner of Podium, or what `as_planner` accepts.
        workers: what `as_worker` accepts.
        options: the `ConductorOptions`.
        card: describes the new conductor.
        as_worker: that of the host.
        as_planner: that of the host.
        face: the name of what is made, for errors.
        takes: names of the face's other options, for errors.
        stores: see above.

    Raises:
        ConfigError: there is no planner, or both a conductor and its parts are given.
        TypeError: an option is unknown.
    """
    check_options(face, options, ("planner", "workers", *ConductorOptions.__annotations__, *takes))
    if conductor is not None:
        if not isinstance(conductor, Conductor):
            told = "give a podium.Conductor, or planner=... and workers=[...]"
            raise ConfigError(f"{face} got {conductor!r:.80} as its conductor: {told}")
        if planner is not None or workers or options:
            raise ConfigError(f"{face} got a conductor with a planner, workers or options: it has its own")
        return conductor
    given = {"card": card, **options}
    own, given["fallback_planner"] = planners_of(planner, given, as_planner, face)
    pool = Pool([as_worker(worker) for worker in workers])
    policy = options.get("policy")
    waits = pool.waits_for or (policy is not None and policy.waits)
    if waits and not stores and options.get("journal") is None:
        given["journal"] = MemoryJournal()
    return Conductor(own, pool, **given)


def planners_of(
    planner: object, options: dict[str, Any], as_planner: Callable[..., Planner], face: str
) -> tuple[Planner, Planner | None]:
    """Return the planner and the fallback planner, which may be models of the host; `workflows` is removed.

    Raises:
        ConfigError: there is no planner, or one cannot plan.
    """
    if planner is None:
        told = "give planner=... (a model, or a planner of Podium), or a podium.Conductor"
        raise ConfigError(f"{face} has no planner: {told}")
    workflows = {"workflows": True} if options.pop("workflows", False) else {}
    if workflows and isinstance(planner, Planner):
        told = "give a model as the planner, or ChatPlanner(…, workflows=True)"
        raise ConfigError(f"{face} got workflows with a planner that plans by itself: {told}")
    fallback = options.get("fallback_planner")
    try:
        second = None if fallback is None else _planner(fallback, as_planner, workflows)
    except ConfigError as error:
        raise ConfigError(f"fallback_planner: {error}") from error
    return _planner(planner, as_planner, workflows), second


def _planner(given: Any, as_planner: Callable[..., Planner], options: Mapping[str, Any]) -> Planner:
    return given if isinstance(given, Planner) else as_planner(given, **options)


def run_id_in(conductor: Conductor, session: str, messages: Sequence[Message]) -> str:
    """Return the run id of a conversation in a session: the same call in a new process has the same id."""
    return session_run_id(place_of(conductor, session, messages), _digest(messages))


def run_id_of(prefix: str | None, asked: str | Sequence[Message]) -> RunOptions:
    """Return the options that name a run: by its prefix and a hash of the question; empty without one."""
    if prefix is None:
        return {}
    return {"run_id": f"{prefix}:{_digest(asked)[:16]}"}


def _digest(asked: str | Sequence[Message]) -> str:
    text = asked if isinstance(asked, str) else json.dumps([message.to_wire() for message in asked])
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
