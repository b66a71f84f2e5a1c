"""What the request of a line returns when its run has ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from podium.types import Message, Problem, Result
from podium_server.models import ServedModel
from podium_server.turn import Recorded, Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a line's run."""

    result: Result
    status: str
    """The status of the result; `partial` also if the answer lacks the requested form."""
    problem: Problem | None = None
    body: Mapping[str, Any] | None = None
    """The body of OpenAI's response; `None` for a line that is not of OpenAI's form."""


class Request(Protocol):
    """What a line asks for."""

    def check(self, model: ServedModel) -> None:
        """Raise `PodiumError` if the model cannot answer the request."""

    def conversation_for(self, model: ServedModel) -> Sequence[Message]:
        """Return the conversation, with the question last."""

    async def answer(
        self, turns: Turns, model: ServedModel, run_id: str, recorded: Recorded | None
    ) -> Answer:
        """Run the request, and return its answer.

        Args:
            turns: makes the turn of the run.
            model: the model.
            run_id: the id of the run. A run that an earlier command began is continued.
            recorded: the recorded run, if it is to be returned without another call; else `None`.

        Raises:
            PodiumError: see `podium.conductor.Conductor.run`.
        """
