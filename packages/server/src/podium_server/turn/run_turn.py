"""An admitted run that is not a conversation: the run of a plan, a resumed run, or a replay."""

from dataclasses import dataclass

from podium.conductor import Conductor
from podium.run import RunOptions
from podium.types import Result
from podium_server.keys import Admission


@dataclass(frozen=True, slots=True)
class RunTurn:
    """An admitted run."""

    conductor: Conductor
    options: RunOptions
    """The options that the run must have."""
    admission: Admission

    def settle(self, result: Result) -> None:
        """Charge the run after its end."""
        self.admission.settle(result)
