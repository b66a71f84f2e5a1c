"""Follows a run: live in a terminal, or only to its end."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import monotonic

import anyio
from rich.console import RenderableType
from rich.live import Live

from podium.cli.board import Board
from podium.cli.screen import Screen
from podium.cli.tree import Artist
from podium.conductor import Conductor
from podium.errors import PodiumError
from podium.events import Event
from podium.hosted import HostedConductor
from podium.messages import Query
from podium.plan import Plan
from podium.result import Result

_TICK = 0.1
"""Seconds between two drawings."""


async def follow(conductor: Conductor | HostedConductor, asked: Query | Plan, board: Board) -> Result:
    """Run what was asked and keep `board` up to date meanwhile.

    Raises:
        PodiumError: as `Conductor.run`.
    """
    async with aclosing(_stream(conductor, asked)) as events:
        async for event in events:
            board.take(event, monotonic())
    assert board.root is not None
    assert board.root.result is not None
    return board.root.result


async def watch(conductor: Conductor | HostedConductor, asked: Query | Plan, screen: Screen) -> Result:
    """Run what was asked and show on stderr how it goes.

    Raises:
        PodiumError: as `Conductor.run`.
    """
    board, console = Board(), screen.console(stderr=True)

    def picture(*, with_answer: bool) -> RenderableType:
        artist = Artist(screen.shown, monotonic(), console.width)
        return artist.draw(board, with_answer=with_answer)

    with Live(picture(with_answer=True), console=console, auto_refresh=False) as live:

        async def keep_drawing() -> None:
            while True:
                live.update(picture(with_answer=True), refresh=True)
                await anyio.sleep(_TICK)

        came_to: Result | PodiumError
        try:
            async with anyio.create_task_group() as drawing:
                drawing.start_soon(keep_drawing)
                try:
                    came_to = await follow(conductor, asked, board)
                except PodiumError as error:  # the task group would wrap it
                    came_to = error
                drawing.cancel_scope.cancel()
        finally:
            live.update(picture(with_answer=False), refresh=True)
    if isinstance(came_to, PodiumError):
        raise came_to
    return came_to


def _stream(conductor: Conductor | HostedConductor, asked: Query | Plan) -> AsyncGenerator[Event, None]:
    if isinstance(conductor, Conductor):
        return conductor.stream(asked)
    assert not isinstance(asked, Plan)  # plans are given only to conductors that run here
    return conductor.stream(asked)
