"""The share of the trained weights that a training has changed.

Weights in bfloat16 have eight bits: updates of a small learning rate are rounded away. At 1e-6, 200 updates
of AdamW change 1 % of them.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

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
