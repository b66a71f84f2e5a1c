"""Write a conductor's participants, planner and options as AutoGen components, and read them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, cast

from autogen_core import ComponentLoader, ComponentModel
from autogen_core.models import ChatCompletionClient
from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_jsonable_python

from autogen_podium.conductor_options import ConductorOptions, conductor_of
from autogen_podium.workers.agent import AgentWorker
from autogen_podium.workers.model import ModelWorker
from autogen_podium.workers.nested import NestedWorker
from autogen_podium.workers.tool import AutoGenTool
from autogen_podium.workers.wrap import Participant, as_planner, as_worker
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.execution import Retry
from podium.planners import Planner
from podium.workers import Card, Worker

_PLAIN = ("direct", "on_failure", "show_question")
"""The options that are plain data."""
_CARDS, _RETRIES = TypeAdapter(Card), TypeAdapter(Retry)


class ParticipantConfig(BaseModel):
    """A participant as a component, its card, and whether it acts; `None` for a conductor, as its pool."""

    component: ComponentModel
    card: dict[str, Any]
    acts: bool | None = None


class ConductorConfig(BaseModel):
    """Participants, planners, limits and options of a conductor."""

    participants: list[ParticipantConfig]
    model_client: ComponentModel | None = None
    fallback_planner: ComponentModel | None = None
    limits: dict[str, int | float | None] | None = None
    retry: dict[str, Any] | None = None
    options: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class ConductorParts:
    """A conductor and its parts; a conductor that was passed as an argument has no parts."""

    conductor: Conductor
    planner: ChatCompletionClient | Planner | Worker | None = None
    options: ConductorOptions | None = None

    @classmethod
    def of(
        cls,
        participants: Sequence[Participant] | Conductor,
        planner: ChatCompletionClient | Planner | Worker | None,
        name: str,
        description: str,
        options: ConductorOptions,
        *,
        face: str,
    ) -> Self:
        """Create the conductor, or use the given one.

        Args:
            participants: execute the steps; or the conductor.
            planner: writes the plans.
            name: the name on the conductor's card.
            description: the description on the conductor's card.
            options: further options of `podium.Conductor`.
            face: the name of the caller's class, for errors.

        Raises:
            ConfigError: an option is invalid, or both a conductor and options are given.
            TypeError: an option is unknown.
        """
        conductor = conductor_of(
            participants,
            planner,
            card=Card(name=name, description=description),
            as_worker=as_worker,
            as_planner=as_planner,
            options=options,
            face=face,
        )
        return cls(conductor) if conductor is participants else cls(conductor, planner, options)

    def to_config(self) -> ConductorConfig:
        """Return the parts as plain data.

        Raises:
            ConfigError: a part cannot be a component.
        """
        if self.options is None:
            raise ConfigError(_undumped("a podium.Conductor", "give participants and a model client instead"))
        options = dict(self.options)
        fallback, limits = options.pop("fallback_planner", None), options.pop("limits", None)
        retry, cache = options.pop("retry", None), options.get("cache")
        plain = {name: options.pop(name) for name in _PLAIN if name in options}
        if cache == "run":
            plain["cache"] = options.pop("cache")
        if others := [name for name, value in options.items() if value is not None]:
            raise ConfigError(_undumped(", ".join(others), "set it after loading"))
        return ConductorConfig(
            model_client=_dump_planner(self.planner),
            fallback_planner=_dump_planner(fallback),
            participants=[dump_worker(worker) for worker in self.conductor.pool],
            limits=None if limits is None else _changed_limits(cast("Limits", limits)),
            retry=None if retry is None else _dump_retry(cast("Retry", retry)),
            options=plain,
        )


def load_participants(config: ConductorConfig) -> list[Worker]:
    """Return the workers from the config that `ConductorParts.to_config` wrote."""
    return [load_worker(each) for each in config.participants]


def load_planner(config: ConductorConfig) -> ChatCompletionClient | None:
    """Return the planner's model client from the config that `ConductorParts.to_config` wrote."""
    return _load_planner(config.model_client)


def _load_planner(component: ComponentModel | None) -> ChatCompletionClient | None:
    return None if component is None else ChatCompletionClient.load_component(component)


def _dump_planner(planner: object) -> ComponentModel | None:
    if planner is None:
        return None
    if isinstance(planner, ChatCompletionClient):
        return planner.dump_component()
    raise ConfigError(_undumped("a podium planner", "give a model client instead"))


def load_options(config: ConductorConfig) -> ConductorOptions:
    """Return the options from the config that `ConductorParts.to_config` wrote."""
    given: dict[str, Any] = dict(config.options)
    limits: dict[str, Any] | None = config.limits
    if limits is not None:
        given["limits"] = Limits(**limits)
    if config.retry is not None:
        given["retry"] = _RETRIES.validate_python(config.retry)
    if config.fallback_planner is not None:
        given["fallback_planner"] = _load_planner(config.fallback_planner)
    return cast("ConductorOptions", given)


def load_worker(config: ParticipantConfig) -> Worker:
    """Return the worker from the config that `dump_worker` wrote."""
    component = cast("Any", ComponentLoader).load_component(config.component, object)
    return as_worker(component, card=_CARDS.validate_python(config.card), acts=config.acts)


def dump_worker(worker: Worker) -> ParticipantConfig:
    """Return a worker as plain data.

    Raises:
        ConfigError: the worker cannot be a component.
    """
    match worker:
        case (
            AgentWorker(agent=part)
            | NestedWorker(face=part)
            | ModelWorker(client=part)
            | AutoGenTool(tool=part)
        ):
            component = part.dump_component()
        case _:
            told = f"worker {worker.card.name!r}, a {type(worker).__name__}"
            raise ConfigError(
                _undumped(told, "only AutoGen's agents, teams, tools and model clients are components")
            )
    return ParticipantConfig(
        component=component,
        card=_CARDS.dump_python(worker.card, mode="json"),
        acts=None if isinstance(worker, NestedWorker) else worker.acts,
    )


def _changed_limits(limits: Limits) -> dict[str, int | float | None]:
    """Return the limits that differ from their defaults."""
    plain = {limit.name: limit.default for limit in fields(Limits)}
    return {name: value for name, value in asdict(limits).items() if value != plain[name]}


def _dump_retry(retry: Retry) -> dict[str, Any]:
    plain = {field.name: getattr(retry, field.name) for field in fields(Retry)}
    plain["fallbacks"] = dict(plain["fallbacks"])
    codes = {name: sorted(value) for name, value in plain.items() if isinstance(value, frozenset)}
    return cast("dict[str, Any]", to_jsonable_python(plain | codes))


def _undumped(what: str, instead: str) -> str:
    return f"{what} cannot be dumped as a component: {instead}"
