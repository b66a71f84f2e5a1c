"""Runs of a conductor whose id is the host's: a recorded run that has no whole answer goes on."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from podium.aio import events_of
from podium.conductor import Conductor
from podium.run import Listener, RunOptions
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
        on_event: takes each event as it happens; the events are yielded later, when they are read.
    """

    def __init__(
        self,
        conductor: Conductor,
        asked: str | Sequence[Message] | Plan,
        options: RunOptions,
        *,
        on_event: Listener | None = None,
    ) -> None:
        self._conductor = conductor
        self._asked = asked
        self._options = options
        self._on_event = on_event
        self._is_begun = False
        self.before: Result | None = None
        """The result that was recorded by an earlier call; `None` where there was none."""

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the run, as `Conductor.stream`."""
        return events_of(self._carry_out)

    async def _carry_out(self, emit: Callable[[Event], None]) -> None:
        def tell(event: Event) -> None:
            if not self._is_begun and isinstance(event, RunEnded):
                self.before = event.result
                if event.result.status in _UNFINISHED:
                    return  # it goes on below
            self._is_begun = True
            if self._on_event is not None:
                self._on_event(event)
            emit(event)

        options = self._options
        await self._conductor.run(self._asked, on_event=tell, **options)
        if self.before is not None and self.before.status in _UNFINISHED:
            self._is_begun = True
            await self._conductor.resume(
                self.before.run_id,
                policy=options.get("policy"),
                journal=options.get("journal"),
                middleware=options.get("middleware"),
                step_starter=options.get("step_starter"),
                on_event=tell,
            )
