"""The floor: each shape written by hand with asyncio only."""

import asyncio

from benchmarks.block import Run
from benchmarks.job import CHAIN, DIAMOND, MODELS, ShapeName, write_prompt
from benchmarks.overhead.arms.clients import Ask


def hand_written(shape: ShapeName, ask: Ask) -> Run:
    """Return a coroutine function that runs `shape` once and returns its answer."""
    return (lambda: _diamond(ask)) if shape == "diamond" else (lambda: _chain(ask))


async def _diamond(ask: Ask) -> str:
    north, east, south = MODELS
    listed = await ask(north, write_prompt(DIAMOND, 0, ()))
    changes, told = await asyncio.gather(  # noqa: TID251  (the floor is the fastest way)
        ask(east, write_prompt(DIAMOND, 1, (listed,))), ask(south, write_prompt(DIAMOND, 2, (listed,)))
    )
    return await ask(north, write_prompt(DIAMOND, 3, (changes, told)))


async def _chain(ask: Ask) -> str:
    north, east, south = MODELS
    listed = await ask(north, write_prompt(CHAIN, 0, ()))
    changes = await ask(east, write_prompt(CHAIN, 1, (listed,)))
    checked = await ask(south, write_prompt(CHAIN, 2, (changes,)))
    told = await ask(east, write_prompt(CHAIN, 3, (checked,)))
    return await ask(north, write_prompt(CHAIN, 4, (told,)))
