"""Asks several arms at a time, each in a process of its own."""

from collections.abc import Callable, Sequence

import anyio
import anyio.to_process

from podium_evals.arms.arm import Arm, Fold
from podium_evals.arms.tally import Tallies, tallied

OnAnswers = Callable[[Arm, int], object]


async def ask_all(
    arms: Sequence[Arm], folds: Sequence[Fold], seeds: Sequence[int], processes: int, on_answers: OnAnswers
) -> dict[str, Tallies]:
    """Ask each arm all folds.

    With one process all arms are asked in this one, one after the other. With more, arms that wait for
    servers stay in this process.

    Args:
        arms: the arms; for more than one process they can be pickled.
        folds: what they are fitted on and asked.
        seeds: the numbers of the samples to take.
        processes: how many processes compute at a time.
        on_answers: is called with an arm and its number of new answers.
    """
    found: dict[str, Tallies] = {}

    async def ask_here(arm: Arm) -> None:
        found[arm.name] = await tallied(arm, folds, seeds, lambda number: on_answers(arm, number))

    if processes == 1:
        for arm in arms:
            await ask_here(arm)
        return found
    limiter = anyio.CapacityLimiter(processes)

    async def ask_there(arm: Arm) -> None:
        found[arm.name] = await anyio.to_process.run_sync(
            _ask, arm, folds, seeds, cancellable=True, limiter=limiter
        )
        on_answers(arm, sum(tally.answers for tally in found[arm.name].of_query.values()))

    try:
        async with anyio.create_task_group() as tasks:
            for arm in arms:
                tasks.start_soon(ask_here if arm.waits else ask_there, arm)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group
    return found


def _ask(arm: Arm, folds: Sequence[Fold], seeds: Sequence[int]) -> Tallies:
    async def ask() -> Tallies:
        return await tallied(arm, folds, seeds)

    return anyio.run(ask)
