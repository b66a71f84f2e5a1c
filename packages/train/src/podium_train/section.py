"""`[planner]` of type `conductor` in `podium.toml`. Imports are few, because any command may read it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from podium.config import AddedPlanner
from podium.errors import ConfigError
from podium.planners import Planner
from podium.workers import FREE, Card, ChatWorker, Endpoint, Worker


class ConductorSection(AddedPlanner):
    """`[planner]` of type `conductor`: a model that `podium-train export` wrote, behind a server."""

    type: Literal["conductor"]
    """Kind of the planner."""
    path: str
    """The exported folder. Relative paths start at the folder of `podium.toml`."""
    base_url: str
    """URL of the server of the model, as in `http://localhost:8000/v1`."""
    model: str
    """Name of the model at the server."""
    provider: str = "vllm"
    """Kind of the server, by its name in Podium, for example `vllm` or `llamacpp`."""
    key_env: Annotated[str, Field(pattern="^[A-Z_][A-Z0-9_]*$")] | None = None
    """Environment variable with the key of the server."""

    def build(self, folder: Path, workers: Sequence[str]) -> Planner:  # noqa: ARG002 - any workers
        """Build the planner.

        Raises:
            ConfigError: the folder is not an exported conductor, or the installed Podium writes another
                prompt.
        """
        from podium_train.export import ConductorPlanner, read_facts  # noqa: PLC0415 - numpy is slow to import

        key = None if self.key_env is None else os.environ.get(self.key_env)
        if self.key_env is not None and not key:
            raise ConfigError(f"'key_env' in [planner] names {self.key_env}, which is not set")
        endpoint = Endpoint(self.base_url, api_key=key, provider=self.provider)
        worker = ChatWorker(self.model, endpoint=endpoint, card=Card(name=self.model, price=FREE))
        try:
            return ConductorPlanner(worker, read_facts(folder / Path(self.path).expanduser()))
        except ConfigError as error:
            raise ConfigError(f"'path' in [planner]: {error}") from error

    def workers(self, folder: Path) -> Sequence[Worker]:
        """Return the workers that each pool of the training had at its end, such as a vote.

        Raises:
            ConfigError: the folder is not an exported conductor, or this release has no such worker.
        """
        from podium_train.export import brought_workers, read_facts  # noqa: PLC0415 - as above

        try:
            return brought_workers(read_facts(folder / Path(self.path).expanduser()))
        except ConfigError as error:
            raise ConfigError(f"'path' in [planner]: {error}") from error
