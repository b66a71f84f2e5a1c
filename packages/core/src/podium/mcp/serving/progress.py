"""Reports the progress of a run to the client that called the tool."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from podium.types import Result
from podium.types.events import ApprovalAsked, Event, PlanReady, StepEnded, StepStarted

Listen = Callable[[Event], None]
_Note = tuple[int, int | None, str]
"""Number of ended steps, number of planned steps, and a message."""


class Progress:
    """Sends a progress notification when a plan is ready, and when a step starts or ends.

    Args:
        context: the call's context, an object of the SDK.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._run_id = ""
        self._ended = 0
        self._planned = 0
        self.waiting: list[ApprovalAsked] = []
        """The approvals that the run has asked for since it began, or was resumed."""

    async def of(self, run: Callable[[Listen], Awaitable[Result]]) -> Result:
        """Await a run, and report its progress.

        Args:
            run: starts the run with the given listener.
        """
        self.waiting = []
        send, receive = anyio.create_memory_object_stream[_Note](inf)

        def listen(event: Event) -> None:
            if message := self._message(event):
                send.send_nowait((self._ended, self._planned or None, message))

        raised: Exception | None = None
        result: Result | None = None
        with send, receive:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._tell, receive)
                try:
                    result = await run(listen)
                except Exception as error:  # noqa: BLE001 - raised below, outside the group
                    raised = error
                send.close()
        if result is None:
            assert raised is not None
            raise raised
        return result

    async def _tell(self, notes: MemoryObjectReceiveStream[_Note]) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client disconnected
            async for ended, planned, message in notes:
                await self._context.report_progress(ended, planned, message)

    def _message(self, event: Event) -> str:
        """Return the message for an event; empty for events without one and for nested runs."""
        self._run_id = self._run_id or event.run_id
        if event.run_id != self._run_id:
            return ""
        match event:
            case PlanReady(plan=plan):
                self._planned = self._ended + len(plan.steps)
                return f"planned {len(plan.steps)} steps"
            case ApprovalAsked():
                self.waiting.append(event)
                return f"{'the plan' if event.step is None else f'step {event.step}'} waits for approval"
            case StepStarted(step=step, worker=worker, subtask=subtask):
                return f"step {step} ({worker}): {' '.join(subtask.split()):.100}"
            case StepEnded(outcome=outcome):
                self._ended += 1
                return f"step {outcome.step} ({outcome.worker}): {outcome.status}"
            case _:
                return ""
