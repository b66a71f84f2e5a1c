"""One response in the background: writes its events, each before any client can read it."""

from collections.abc import Iterable
from contextlib import aclosing
from typing import Literal

import anyio

from podium.journal import new_holder
from podium_server.api.responses.leases import Leases
from podium_server.api.responses.writer import Event, ResponseWriter
from podium_server.turn import Turn

Why = Literal["cancelled", "stopped", "lost"]
"""Why a job ends before its response: the client cancelled the response, the server stops, or another job
holds the response."""


class JobLost(Exception):
    """Another job holds the response, or the response was deleted."""


class Job:
    """A response in the background.

    Args:
        leases: the responses in the database.
        writer: writes the events.
        holder: the name of the job; `None` for a new name.
        is_new: whether no other job had the response before.
    """

    def __init__(
        self, leases: Leases, writer: ResponseWriter, holder: str | None = None, *, is_new: bool = False
    ) -> None:
        self._leases = leases
        self._unwritten: list[Event] = []
        self.writer = writer
        self.holder = holder or new_holder()
        self.is_new = is_new
        self.scope = anyio.CancelScope()
        """The scope of the run."""
        self.why: Why | None = None
        """Why the run was cancelled; `None` if it was not."""
        self.is_admitted = False
        """Whether the run was admitted."""
        self.changed = anyio.Event()
        """Set after the next write."""

    @property
    def response_id(self) -> str:
        """The id of the response."""
        return self.writer.response.response_id

    def cancel(self, why: Why) -> None:
        """Cancel the run."""
        self.why = self.why or why
        self.scope.cancel()

    async def answer(self, turn: Turn) -> list[Event]:
        """Run the turn, and return the last events, which `write` writes.

        The text of the answer is written with the end, so that no restart takes text back.

        Raises:
            JobLost: another job holds the response.
            PodiumError: see `Turn.pieces`.
        """
        if self.writer.response.status == "queued":
            await self.write(self.writer.proceed())
        async with aclosing(turn.pieces()) as pieces:
            async for piece in pieces:
                self._unwritten += self.writer.piece(piece)
                if not self.writer.has_text:
                    await self.write(())
        return self.writer.end(turn)

    async def write(self, events: Iterable[Event], *, ends: bool = False) -> None:
        """Write events and the response that they lead to.

        Args:
            events: the events.
            ends: whether the response has ended.

        Raises:
            JobLost: another job holds the response.
            JournalError: the database cannot be used.
        """
        self._unwritten += events
        response = self.writer.response.to_json()
        if not await self._leases.write(response, self.holder, self._unwritten, ends=ends):
            raise JobLost
        self._unwritten = []
        self.changed.set()
        self.changed = anyio.Event()
