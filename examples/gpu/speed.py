"""The line of a training's speed, counted in the same way for both trainers."""

from collections.abc import Sequence


def speed_line(name: str, seconds: Sequence[float | None], rollouts: int, gpu: str) -> str:
    """Return rollouts per second of wall time, without start-up and evaluation.

    Args:
        name: the trainer.
        seconds: wall time of each update; the first is left out, because it warms up, and so is None.
        rollouts: texts of an update.
        gpu: the idle share of the GPU, over the whole command.
    """
    counted = [each for each in seconds[1:] if each]
    rate = (
        f"{rollouts * len(counted) / sum(counted):.2f} rollouts/s" if counted else "too few steps for a rate"
    )
    return f"{name}: {len(seconds)} steps, {rate}, {gpu}"
