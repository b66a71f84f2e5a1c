"""Runs with an id of the host: a recorded run without a complete answer is resumed."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from podium.aio import events_of
from podium.conductor import Conductor
from podium.errors import PlannerError
from podium.run import Listener, RunOptions
from podium.types import Event, Message, Plan, Result, RunEnded

_UNFINISHED: Final = ("failed", "partial")


class RecordedRun:
    """A run that an earlier call may have recorded under the same id.

    If the recorded run is `ok`, its result is returned. If it is `failed` or `partial`, it is resumed:
    a planner that wrote no plan is asked again, failed steps run again, and recorded results are reused.

    Args:
        conductor: the conductor.
        asked: the query, or a plan.
        options: the options of the run.
        on_event: called with each event as it happens, before `events` yields it.
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
        """The result that an earlier call recorded; `None` if there is none."""

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the run, like `Conductor.stream`."""
        return events_of(self._carry_out)

    async def _carry_out(self, emit: Callable[[Event], None]) -> None:
        def tell(event: Event) -> None:
            if not self._is_begun and isinstance(event, RunEnded):
                self.before = event.result
                if event.result.status in _UNFINISHED:
                    return  # the run is resumed below
            self._is_begun = True
            if self._on_event is not None:
                self._on_event(event)
            emit(event)

        options = self._options
        try:
            await self._conductor.run(self._asked, on_event=tell, **options)
        except PlannerError:
            if self._is_begun or self.before is None:
                raise  # else the recorded run has no plan, and is resumed below
        if self.before is not None and self.before.status in _UNFINISHED:
            self._is_begun = True
            await self._conductor.resume(
                self.before.run_id,
                policy=options.get("policy"),
                limits=options.get("limits"),
                journal=options.get("journal"),
                middleware=options.get("middleware"),
                step_starter=options.get("step_starter"),
                on_event=tell,
            )
