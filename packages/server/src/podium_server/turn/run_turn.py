"""An admitted run that is not a conversation: the run of a plan, a resumed run, or a replay."""

from dataclasses import dataclass

from podium.conductor import Conductor
from podium.run import RunOptions
from podium.types import Result
from podium_server.keys import Admission
from podium_server.turn.live_pieces import LivePieces


@dataclass(frozen=True, slots=True)
class RunTurn:
    """An admitted run."""

    conductor: Conductor
    options: RunOptions
    """The options that the run must have."""
    admission: Admission
    live: LivePieces
    """Gets the events of the run."""

    def settle(self, result: Result) -> None:
        """Charge the run after its end."""
        self.admission.settle(result)
