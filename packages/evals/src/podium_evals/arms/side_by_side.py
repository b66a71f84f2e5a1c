"""Asks several arms at the same time, each in a separate process."""

import pickle
from collections.abc import Callable, Sequence
from functools import lru_cache

import anyio
import anyio.to_process

from podium_evals.arms.arm import Arm, Fold
from podium_evals.arms.tally import Tallies, tallied

OnAnswers = Callable[[Arm, int], object]
OnArm = Callable[[Arm, Tallies], object]


async def ask_all(
    arms: Sequence[Arm],
    folds: Sequence[Fold],
    seeds: Sequence[int],
    processes: int,
    on_answers: OnAnswers = lambda _arm, _number: None,
    on_arm: OnArm = lambda _arm, _tallies: None,
) -> dict[str, Tallies]:
    """Ask each arm the questions of all folds.

    With one process, all arms are asked in the current process, one after the other. With more, only arms
    that wait for servers are asked in the current process.

    Args:
        arms: the arms. With more than one process, they must be picklable.
        folds: the answers to fit arms on, and the questions to ask.
        seeds: the numbers of the samples to use.
        processes: the number of processes that compute at the same time.
        on_answers: called with an arm and the number of its new answers.
        on_arm: called with an arm and its tallies when the arm has been asked everything.
    """
    found: dict[str, Tallies] = {}

    def keep(arm: Arm, tallies: Tallies) -> None:
        found[arm.name] = tallies
        on_arm(arm, tallies)

    async def ask_here(arm: Arm) -> None:
        keep(arm, await tallied(arm, folds, seeds, lambda number: on_answers(arm, number)))

    if processes == 1:
        for arm in arms:
            await ask_here(arm)
        return found
    limiter = anyio.CapacityLimiter(processes)
    packed = pickle.dumps(list(folds))

    async def ask_there(arm: Arm) -> None:
        tallies = await anyio.to_process.run_sync(_ask, arm, packed, seeds, cancellable=True, limiter=limiter)
        on_answers(arm, sum(tally.answers for tally in tallies.of_query.values()))
        keep(arm, tallies)

    try:
        async with anyio.create_task_group() as tasks:
            for arm in arms:
                tasks.start_soon(ask_here if arm.waits else ask_there, arm)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group
    return found


def _ask(arm: Arm, packed: bytes, seeds: Sequence[int]) -> Tallies:
    async def ask() -> Tallies:
        return await tallied(arm, _unpacked(packed), seeds)

    return anyio.run(ask)


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Sequence[Fold]:
    """Return the folds. A process unpickles them once for all of its arms."""
    folds: Sequence[Fold] = pickle.loads(packed)  # noqa: S301 - from the process that started this one
    return folds
