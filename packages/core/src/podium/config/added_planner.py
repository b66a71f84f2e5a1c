"""The interface of planners that other packages add to `podium.toml`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from podium.config.sections import Fallback
from podium.config.tables import Section
from podium.planners.planner import Planner
from podium.workers.worker import Worker


class AddedPlanner(Section, ABC):
    """Base class of the table `[planner]` with a type that another package adds.

    The package has an entry point in the group `podium.planners`, with the name of the type, that refers to
    a subclass. Its fields are the other keys of the table.
    """

    type: str
    """Kind of the planner."""
    fallback: Fallback | None = None
    """Fallback planner, used if this planner fails; the run is then partial."""

    @abstractmethod
    def build(self, folder: Path, workers: Sequence[str]) -> Planner:
        """Build the planner.

        Args:
            folder: the folder of `podium.toml`, to which paths are relative.
            workers: the names of the tables `[workers.NAME]`.

        Raises:
            ConfigError: a value is invalid. If the message begins with a key of the table, the error has the
                line of this key.
        """

    def workers(self) -> Sequence[Worker]:
        """Return additional workers that the plans need. They are added to the workers of the file."""
        return ()
