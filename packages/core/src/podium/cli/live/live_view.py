"""The live view of a run in a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import anyio
from rich.live import Live
from rich.text import Text

from podium.cli.job import Job, follow
from podium.cli.live.live_state import LiveState
from podium.cli.live.notes import run_notes
from podium.cli.live.run_table import RunTable
from podium.cli.screen import Screen
from podium.types.result import Result

_TICK = 0.1
"""Seconds between two refreshes."""


class View:
    """The live view of one run, on stderr."""

    def __init__(self, screen: Screen, state: LiveState) -> None:
        self._screen = screen
        self._state = state
        self._live = Live(console=screen.console(stderr=True), auto_refresh=False)

    async def watch(self, job: Job) -> Result:
        """Run the job, show its progress, and return its result.

        Raises:
            PodiumError: `Conductor.run` raises it.
        """
        ended_with: Result | Exception
        with self._live:
            try:
                async with anyio.create_task_group() as drawing:
                    drawing.start_soon(self._keep_drawing)
                    try:
                        ended_with = await follow(job, self._state)
                    except Exception as error:  # noqa: BLE001 - raised below: the task group would wrap it
                        ended_with = error
                    drawing.cancel_scope.cancel()
            finally:
                ended = RunTable(self._screen.shown, None, self._live.console.width)
                self._live.update(ended.draw(self._state), refresh=True)
        for note in run_notes(self._state, self._screen.shown):
            self._live.console.print(Text(note.text, style=note.style), soft_wrap=True)
        if isinstance(ended_with, Exception):
            raise ended_with
        return ended_with

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide the view during the block, so that the terminal is free for other output."""
        self._live.update(self._table().draw(self._state))
        self._live.stop()
        try:
            yield
        finally:
            self._live.vertical_overflow = "ellipsis"  # `stop` changes it
            self._live.start()

    async def _keep_drawing(self) -> None:
        while True:
            if self._live.is_started:
                height = self._live.console.height
                self._live.update(self._table().draw_live(self._state, height), refresh=True)
            await anyio.sleep(_TICK)

    def _table(self) -> RunTable:
        return RunTable(self._screen.shown, monotonic(), self._live.console.width)
