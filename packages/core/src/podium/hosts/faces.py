"""What all classes of hosts that wrap a conductor share: its options, its creation, the names of its runs."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from inspect import Parameter, signature
from typing import Any, Final, Literal, TypedDict

from podium.budget import Limits
from podium.conductor import CARD, Conductor
from podium.errors import ConfigError, unknown_options
from podium.execution import Accept, OnFailure, Retry
from podium.hosts.continuation import place_of, session_run_id
from podium.journal import Cache, Journal, MemoryJournal
from podium.plan_text.saved import SavedPlan
from podium.planners import ChatPlanner, Planner
from podium.policy import Policy
from podium.run import RunOptions
from podium.types import Message
from podium.workers import Card, Pool, Worker

_PARTS: Final = ("planner", "workers", "workflows")
_OPTIONS: Final = tuple(
    name for name, each in signature(Conductor).parameters.items() if each.kind is Parameter.KEYWORD_ONLY
)


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
    card: Card | None
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
    face: Callable[..., Any],
    stores: bool = False,
) -> Conductor:
    """Return the given conductor, or make one of a planner and workers, which may be objects of the host.

    Without a journal, runs that wait for a person wait in memory, unless the host `stores` them itself.
    Errors name the `face`, a class or a function, and its parameters.

    Raises:
        ConfigError: there is no planner, or both a conductor and its parts are given.
        TypeError: an option is unknown.
    """
    name, own = face.__name__, [each for each in signature(face).parameters if each != "options"]
    if told := unknown_options(name, options, [*_PARTS, *own, *_OPTIONS]):
        raise TypeError(told)
    if conductor is not None:
        return _checked(conductor, name, has_parts=bool(planner is not None or workers or options))
    if planner is None:
        told = "give planner=... (a model, or a planner of Podium), or a podium.Conductor"
        raise ConfigError(f"{name} has no planner: {told}")
    if options.get("workflows") and isinstance(planner, Planner):
        told = "give a model as the planner, or ChatPlanner(…, workflows=True)"
        raise ConfigError(f"{name} got workflows with a planner that plans by itself: {told}")
    given = dict(options)
    workflows = {"workflows": True} if given.pop("workflows", False) else {}
    pool = Pool([as_worker(worker) for worker in workers])
    policy = options.get("policy")
    waits = pool.waits_for or (policy is not None and policy.waits)
    if waits and not stores and options.get("journal") is None:
        given["journal"] = MemoryJournal()
    planners = {"planner": planner, "fallback_planner": given.pop("fallback_planner", None)}
    for which, model in planners.items():
        try:
            if model is not None and not isinstance(model, Planner):
                planners[which] = as_planner(model, **workflows)
        except ConfigError as error:
            raise ConfigError(f"{which}: {error}") from error
    return Conductor(workers=pool, **{"card": card, **given, **planners})


def planner_of(model: Any, as_worker: Callable[[Any], Worker], options: Mapping[str, Any]) -> Planner:
    """Return a planner that asks a model, or the given planner of Podium.

    Raises:
        ConfigError: a planner of Podium is given options of `ChatPlanner`.
    """
    if not isinstance(model, Planner):
        return ChatPlanner(as_worker(model), **options)
    if options:
        raise ConfigError(f"planner {model.name!r} plans by itself: give a model with {', '.join(options)}")
    return model


def _checked(conductor: object, face: str, *, has_parts: bool) -> Conductor:
    """Return a conductor that was given, or raise `ConfigError`."""
    if not isinstance(conductor, Conductor):
        told = "give a podium.Conductor, or planner=... and workers=[...]"
        raise ConfigError(f"{face} got {conductor!r:.80} as its conductor: {told}")
    if has_parts:
        raise ConfigError(f"{face} got a conductor with a planner, workers or options: it has its own")
    return conductor


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
