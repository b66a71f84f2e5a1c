"""A model that clients can name, and the models of the demo."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from podium.budget import Limits
from podium.conductor import Conductor
from podium.config import Config, load_config
from podium.errors import ConfigError, WorkerActs
from podium.workers import Card
from podium_server.errors import ServerError
from podium_server.settings import Effort, EffortSection, Show

_DEMO = Path(__file__).parent / "demo"


@contextmanager
def demo_config() -> Iterator[Config]:
    """Yield the config of the offline demo.

    Its folder, with its journal and API keys, is a temporary folder, which the end of the block deletes.
    """
    with TemporaryDirectory(prefix="podium-demo-", ignore_cleanup_errors=True) as folder:
        shutil.copytree(_DEMO, folder, dirs_exist_ok=True)
        yield load_config(Path(folder) / "podium.toml")


EFFORTS: tuple[Effort, ...] = get_args(Effort)


class ModelUnknown(ServerError):
    """The server has no model with this name."""

    code = "model_not_found"
    status = 404


class ModelActs(ServerError):
    """The model may act, and the client has said that its request must not act."""

    code = WorkerActs.code
    status = 428


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model that clients can name."""

    name: str
    version: str
    """Part of the id that responses have."""
    conductor: Conductor
    is_worker: bool = False
    """Whether a worker answers as itself: it is sent each conversation unchanged, without a plan."""
    aliases: tuple[str, ...] = ()
    """Further names; `*` stands for any characters."""
    description: str = ""
    show: Show = "steps"
    efforts: Mapping[Effort, EffortSection] = field(default_factory=dict)
    codex_instructions: str | None = None
    """Instructions that Codex gives to the model; `None` if the model is not in the list for Codex."""
    parameters: Mapping[str, Any] | None = None
    """The JSON schema of the arguments of a saved plan; `None` for other models."""
    created: int
    """When the server started, in seconds of Unix time."""

    @property
    def versioned_id(self) -> str:
        """The id of the model with its version, as responses have it."""
        return f"{self.name}-{self.version}"

    @property
    def passes_extra(self) -> bool:
        """Whether the provider of the model gets the fields of a request that Podium does not know."""
        return self.is_worker and all(worker.takes_extra for worker in self.conductor.pool.workers)

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers."""
        return tuple(card.name for card in self.cards)

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards of the workers."""
        return self.conductor.pool.cards

    def effort(self, asked: Effort | None) -> Effort | None:
        """Return the effort of the model for a requested effort; `None` if the request changes nothing.

        It is the nearest effort of the model that is not higher, or else the lowest effort of the model.

        Raises:
            ConfigError: the effort is unknown; a model without efforts accepts any.
        """
        if asked is None or not self.efforts:
            return None
        if asked not in EFFORTS:
            raise ConfigError(f"reasoning_effort {asked!r:.80} is unknown: write {', '.join(EFFORTS)}")
        known = [effort for effort in EFFORTS if effort in self.efforts]
        at = EFFORTS.index(asked)
        return max((each for each in known if EFFORTS.index(each) <= at), key=EFFORTS.index, default=known[0])

    def limits(self, effort: Effort | None, given: Limits | None) -> Limits | None:
        """Return the limits of a run; `None` for those of the conductor.

        Args:
            effort: an effort of the model; `None` changes nothing.
            given: replace the limits of the conductor; `None` means that no limits are given.
        """
        changes = None if effort is None else self.efforts[effort]
        if changes is None:
            return given
        limits = given or self.conductor.limits
        return replace(
            limits, rounds=changes.rounds or limits.rounds, plan_steps=changes.steps or limits.plan_steps
        )
