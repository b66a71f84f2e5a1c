"""Measures, guards and the best checkpoint, as a callback of transformers' trainers.

The log has the share of the weights that moved. Weights in bfloat16 have eight bits: updates of a small
learning rate are rounded away. At 1e-6, 200 updates of AdamW change 1 % of them.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter
from transformers import TrainerCallback

from podium_train.guards import (
    MEMORY,
    STEPS,
    TEXTS,
    BestCheckpoint,
    Guards,
    GuardSettings,
    HeldOut,
    Sample,
    StepLog,
    StepMeasures,
    Stop,
    held_out_told,
    logged_texts,
    measure,
    second_told,
    step_of,
)
from podium_train.progress import Reporter
from podium_train.runs import mark_model

_SAMPLE = 1024
"""Weights of each matrix that are compared."""


class MovedWeights:
    """Compares a sample of the trained weights of this process with their values when it was made.

    Args:
        model: the model, whose weights may be sharded.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._first = [each.clone() for each in self._sample()]

    def share(self) -> float:
        """Return the share of the weights that differ."""
        pairs = zip(self._sample(), self._first, strict=True)
        changed = torch.stack([(now != first).sum() for now, first in pairs]).sum()
        return float(changed) / max(1, sum(each.numel() for each in self._first))

    def _sample(self) -> Iterator[Tensor]:
        for weight in self._model.parameters():
            if weight.requires_grad:
                local = getattr(weight, "ds_tensor", weight)  # the shard of DeepSpeed's stage 3
                local = local.to_local() if hasattr(local, "to_local") else local
                flat = local.detach().flatten()
                yield flat[:: max(1, len(flat) // _SAMPLE)]


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


class GuardCallback(TrainerCallback):
    """Logs the measures of each step, stops a run that fails, and keeps the best checkpoint.

    Args:
        folder: the folder of the run.
        settings: the settings of the guards.
        checkpoint: the checkpoint from which the run continues; `None` for a new run.
        held_out: measures held-out splits; the first chooses the best checkpoint.
        every: steps between these measurements.
        report: tells people of each step.
        tensorboard: whether the measures are also written to `tensorboard` in the folder.
    """

    def __init__(  # noqa: PLR0913 - the parts of one callback
        self,
        *,
        folder: Path,
        settings: GuardSettings,
        checkpoint: Path | None,
        held_out: Callable[[], Mapping[str, HeldOut]],
        every: int,
        report: Reporter,
        tensorboard: bool = False,
    ) -> None:
        self._is_first = PartialState().is_main_process
        memory = None if checkpoint is None else json.loads((checkpoint / MEMORY).read_text())
        step = step_of(checkpoint)
        self.stop: Stop | None = None
        self._guards = Guards(settings, memory)
        self._log = StepLog(folder / STEPS, resumed_at=step) if self._is_first else None
        self._texts = StepLog(folder / TEXTS, resumed_at=step) if self._is_first else None
        self._best = BestCheckpoint(folder)
        self._folder, self._held_out, self._every, self._report = folder, held_out, every, report
        self._board = None
        if tensorboard and self._is_first:
            self._board = BoardLog(folder / "tensorboard", resumed_at=step)
        self._moved: MovedWeights | None = None
        self._samples: list[Sample] = []
        self._accuracy: float | None = None
        self._began = time.monotonic()

    def hear(self, samples: Sequence[Sample]) -> None:
        """Take the samples of a batch of rewards of this process."""
        self._samples += samples

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002 - of transformers
        """Note the first weights."""
        self._moved = MovedWeights(model)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 - of transformers
        """Measure the step, and stop the run if a rule says so."""
        step = state.global_step
        held_out: Mapping[str, HeldOut] = {}
        if step % self._every == 0:
            held_out = self._held_out()
            self._accuracy = next(iter(held_out.values())).reached
        seconds, self._began = time.monotonic() - self._began, time.monotonic()
        # All processes measure all samples, so that they stop at the same step.
        samples = gather_object(self._samples)
        moved = None if self._moved is None else self._moved.share()
        measures = measure(step, samples, held_out=held_out, seconds=seconds, moved=moved)
        self._samples = []
        if self._log is not None and self._texts is not None:
            self._log.write(measures)
            for text in logged_texts(step, samples):
                self._texts.write(text)
            if self._board is not None:
                self._board.write(measures)
            self._report.step(step, state.max_steps, _told(measures))
        self.stop = self._guards.check(measures)
        if self.stop is not None:
            control.should_training_stop = True
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 - of transformers
        """Write the memory of the guards, and keep the checkpoint if it is the best."""
        if not state.is_world_process_zero:
            return
        checkpoint = self._folder / f"checkpoint-{state.global_step}"
        mark_model(checkpoint, self._folder)
        (checkpoint / MEMORY).write_text(json.dumps(self._guards.memory))
        if self._accuracy is not None:
            self._best.offer(checkpoint, step=state.global_step, accuracy=self._accuracy)
            self._accuracy = None


def _told(measures: StepMeasures) -> str:
    held = "".join(
        f", {name} {held_out_told(found)}{second_told(found.sampled_second)}"
        for name, found in measures.held_out.items()
    )
    unknown = f", {measures.unknown:.0%} of the outcomes unknown" if measures.unknown else ""
    moved = "" if measures.moved is None else f", {measures.moved:.0%} of the weights moved"
    return (
        f"reward {measures.reward:.3f}, valid {measures.valid_plans:.0%}, "
        f"entropy {measures.worker_entropy:.2f}{moved}{unknown}{second_told(measures.second)}{held}"
    )
