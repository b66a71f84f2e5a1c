"""The measures of each step for TensorBoard."""

from dataclasses import asdict
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from podium_train.guards import StepMeasures


class BoardLog:
    """Writes the measures of each step as scalars.

    Args:
        folder: the folder, which `tensorboard --logdir` reads.
        resumed_at: the last step of the checkpoint from which the run continues. TensorBoard hides what an
            interrupted run wrote of later steps.
    """

    def __init__(self, folder: Path, *, resumed_at: int = 0) -> None:
        self._writer = SummaryWriter(str(folder), purge_step=resumed_at + 1)

    def write(self, measures: StepMeasures) -> None:
        """Write the measures of a step."""
        scalars = {name: value for name, value in asdict(measures).items() if isinstance(value, int | float)}
        scalars |= {f"workers/{name}": share for name, share in measures.worker_shares.items()}
        if measures.second is not None:
            scalars |= {f"second/{name}": value for name, value in asdict(measures.second).items()}
        for split, found in measures.held_out.items():
            shown = {f"{split}/sampled": found.sampled, f"{split}/greedy": found.greedy}
            scalars |= {name: value for name, value in shown.items() if value is not None}
            if found.sampled_second is not None:
                scalars[f"{split}/after second round"] = found.sampled_second.after
        total = sum(measures.steps.values()) or 1
        scalars |= {f"plans/{size} steps": count / total for size, count in measures.steps.items()}
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, measures.step)
        self._writer.flush()
