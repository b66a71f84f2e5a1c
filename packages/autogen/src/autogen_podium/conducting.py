"""What all of AutoGen's faces of a conductor are made of: who works, who plans, and on what terms.

It owns how that is dumped as a component and loaded again. It knows no agent, team or client
that wraps it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, cast

from autogen_core import ComponentLoader, ComponentModel
from autogen_core.models import ChatCompletionClient
from pydantic import BaseModel, TypeAdapter

from autogen_podium.terms import Terms
from autogen_podium.workers.agent import AgentWorker
from autogen_podium.workers.model import ModelWorker
from autogen_podium.workers.nested import NestedWorker
from autogen_podium.workers.tool import ToolWorker
from autogen_podium.workers.wrap import Participant, as_planner, as_worker
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.planners import Planner
from podium.workers import Card, Worker

_PLAIN = ("strict", "direct", "on_failure", "show_question")
"""The terms that are plain data, as the limits are; others have no form in a component."""


class ParticipantConfig(BaseModel):
    """Who does steps, and what the planner is told of it."""

    component: ComponentModel
    card: dict[str, Any]


class ConductingConfig(BaseModel):
    """Who works, who plans, and on what terms."""

    participants: list[ParticipantConfig]
    model_client: ComponentModel | None = None
    limits: dict[str, int | float | None] | None = None
    terms: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Conducting:
    """A conductor, and what it was made of; nothing of that where it was made by somebody else."""

    conductor: Conductor
    planner: ChatCompletionClient | Planner | Worker | None = None
    terms: Terms | None = None

    @classmethod
    def of(
        cls,
        participants: Sequence[Participant] | Conductor,
        planner: ChatCompletionClient | Planner | Worker | None,
        name: str,
        description: str,
        terms: Terms,
    ) -> Self:
        """Make the conductor, or take the one there is.

        Raises:
            ConfigError: what it takes is wrong, or there is a conductor and what would be part of one.
        """
        if isinstance(participants, Conductor):
            if planner is not None or terms:
                raise ConfigError(
                    "beside a podium.Conductor a planner, limits or a policy do not count: it has its own"
                )
            return cls(participants)
        workers = [as_worker(participant) for participant in participants]
        card = Card(name=name, description=description)
        return cls(Conductor(as_planner(planner), workers, card=card, **cast("Any", terms)), planner, terms)

    def to_config(self) -> ConductingConfig:
        """Write it down.

        Raises:
            ConfigError: a part of it has no form in a component.
        """
        if self.terms is None:
            raise ConfigError(_undumped("a podium.Conductor", "give participants and a model client instead"))
        planner = self.planner
        if planner is not None and not isinstance(planner, ChatCompletionClient):
            raise ConfigError(_undumped("a podium planner", "give a model client instead"))
        others = [
            name
            for name, value in self.terms.items()
            if value is not None and name not in (*_PLAIN, "limits")
        ]
        if others:
            raise ConfigError(_undumped(", ".join(others), "set it on what is loaded"))
        limits = self.terms.get("limits")
        return ConductingConfig(
            participants=[dump_worker(worker) for worker in self.conductor.pool],
            model_client=None if planner is None else planner.dump_component(),
            limits=None if limits is None else _changed_limits(limits),
            terms={name: self.terms[name] for name in _PLAIN if name in self.terms},  # type: ignore[literal-required]
        )


def load_participants(config: ConductingConfig) -> list[Worker]:
    """Return who does steps, as `Conducting.to_config` wrote it."""
    return [load_worker(each) for each in config.participants]


def load_planner(config: ConductingConfig) -> ChatCompletionClient | None:
    """Return who plans, as `Conducting.to_config` wrote it."""
    return None if config.model_client is None else ChatCompletionClient.load_component(config.model_client)


def load_terms(config: ConductingConfig) -> Terms:
    """Return the terms, as `Conducting.to_config` wrote them."""
    limits: dict[str, Any] | None = config.limits
    given = {} if limits is None else {"limits": Limits(**limits)}
    return cast("Terms", {**config.terms, **given})


_CARDS = TypeAdapter(Card)


def load_worker(config: ParticipantConfig) -> Worker:
    """Return a worker, as `dump_worker` wrote it."""
    component = cast("Any", ComponentLoader).load_component(config.component, object)
    return as_worker(component, card=_CARDS.validate_python(config.card))


def dump_worker(worker: Worker) -> ParticipantConfig:
    """Write a worker down.

    Raises:
        ConfigError: it has no form in a component.
    """
    match worker:
        case (
            AgentWorker(agent=part)
            | NestedWorker(agent=part)
            | ModelWorker(client=part)
            | ToolWorker(tool=part)
        ):
            component = part.dump_component()
        case _:
            told = f"worker {worker.card.name!r}, a {type(worker).__name__}"
            raise ConfigError(
                _undumped(told, "only AutoGen's agents, teams, tools and model clients are components")
            )
    return ParticipantConfig(component=component, card=_CARDS.dump_python(worker.card, mode="json"))


def _changed_limits(limits: Limits) -> dict[str, int | float | None]:
    """Return the limits that are not as they are by themselves."""
    plain = {limit.name: limit.default for limit in fields(Limits)}
    return {name: value for name, value in asdict(limits).items() if value != plain[name]}


def _undumped(what: str, instead: str) -> str:
    return f"{what} cannot be dumped as a component: {instead}"
