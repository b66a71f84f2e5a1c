"""Runs of a conductor whose id is the host's: a recorded run that has no whole answer goes on."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from podium.aio import events_of
from podium.conductor import Conductor
from podium.run import RunOptions
from podium.types import Event, Message, Plan, Result, RunEnded

_UNFINISHED: Final = ("failed", "partial")


class RecordedRun:
    """A run that may be recorded already under its id, by an earlier call.

    A recorded run that ended `ok` is read back. One that ended `failed` or `partial` is resumed:
    its failed steps run again, and what was paid for is not paid again.

    Args:
        conductor: the conductor that answers.
        asked: the query, or a plan.
        options: the options of the run.
    """

    def __init__(
        self, conductor: Conductor, asked: str | Sequence[Message] | Plan, options: RunOptions
    ) -> None:
        self._conductor = conductor
        self._asked = asked
        self._options = options
        self.before: Result | None = None
        """The result that was recorded by an earlier call; `None` where there was none."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the run, as `Conductor.stream`."""
        is_first = True
        async with aclosing(self._conductor.stream(self._asked, **self._options)) as events:
            async for event in events:
                if is_first and isinstance(event, RunEnded):
                    self.before = event.result
                    if event.result.status in _UNFINISHED:
                        break
                is_first = False
                yield event
        if self.before is None or self.before.status not in _UNFINISHED:
            return
        async with aclosing(self._resumed(self.before.run_id)) as events:
            async for event in events:
                yield event

    def _resumed(self, run_id: str) -> AsyncGenerator[Event, None]:
        options = self._options
        return events_of(
            lambda emit: self._conductor.resume(
                run_id,
                policy=options.get("policy"),
                journal=options.get("journal"),
                middleware=options.get("middleware"),
                step_starter=options.get("step_starter"),
                on_event=emit,
            )
        )
