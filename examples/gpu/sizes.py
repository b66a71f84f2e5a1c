"""The memory and the disk that a training needs, computed before it starts."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podium.errors import ConfigError
from podium_train.recipe import Recipe

PROMPT: Final = 2048
"""Assumed maximum tokens of a prompt."""
CHECKPOINTS: Final = 4
"""Checkpoints on the disk: three of the trainer, and the best one."""
_GB = 1e9
_CACHE = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a transformer of the family of Llama and Qwen."""

    hidden: int
    layers: int
    feed_forward: int
    vocabulary: int
    heads: int
    kv_heads: int
    tied: bool = False

    @property
    def weights(self) -> int:
        """The number of its weights."""
        kv = self.hidden // self.heads * self.kv_heads
        layer = 2 * self.hidden * (self.hidden + kv) + 3 * self.hidden * self.feed_forward
        return self.layers * layer + self.vocabulary * self.hidden * (1 if self.tied else 2)

    def lora(self, rank: int) -> int:
        """Return the number of weights of matrices of LoRA beside all its linear layers."""
        kv = self.hidden // self.heads * self.kv_heads
        attention = 2 * (self.hidden + self.hidden) + 2 * (self.hidden + kv)
        return self.layers * rank * (attention + 3 * (self.hidden + self.feed_forward))


_KNOWN = {
    "Qwen2.5-3B": Shape(
        hidden=2048, layers=36, feed_forward=11008, vocabulary=151936, heads=16, kv_heads=2, tied=True
    ),
    "Qwen2.5-7B": Shape(hidden=3584, layers=28, feed_forward=18944, vocabulary=152064, heads=28, kv_heads=4),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a training needs of each GPU, and of the disk, in GB (10^9 bytes)."""

    weights: int
    """Weights of the model."""
    states: float
    """Weights, gradients and the state of AdamW."""
    passes: float
    """Activations of a pass with activation checkpointing, and logits."""
    vllm: float
    """The memory that vLLM takes in the same process while it samples."""
    vllm_least: float
    """The least that it needs: its own weights, and keys and values of some texts."""
    sleeps: bool
    """Whether vLLM frees this memory while the weights are trained."""
    disk: float
    """Checkpoints, and the last model."""

    @property
    def peak(self) -> float:
        """The most memory at one time, with 2 GB for the driver and fragments."""
        trains = self.states + self.passes + (0 if self.sleeps else self.vllm)
        return max(trains, self.states + self.vllm) + 2

    def fits(self, gpu: float) -> bool:
        """Return whether GPUs with this memory, in GB, are large enough."""
        return self.peak <= gpu and self.vllm >= self.vllm_least

    def told(self, gpu: float) -> str:
        """Return the lines for people."""
        verdict = "fits" if self.fits(gpu) else "DOES NOT FIT"
        return (
            f"model: {self.weights / _GB:.2f} billion weights\n"
            f"each GPU: {self.states:.0f} GB of weights, gradients and optimizer, {self.passes:.0f} GB for a "
            f"pass, {self.vllm:.0f} GB for vLLM (at least "
            f"{self.vllm_least:.0f}): at most {self.peak:.0f} GB of {gpu:.0f} GB, {verdict}\n"
            f"disk: {self.disk:.0f} GB for {CHECKPOINTS} checkpoints and the last model"
        )


def shape_of(base: str) -> Shape:
    """Return the shape of a model: a folder, or a known name on the Hub."""
    path = Path(base) / "config.json"
    if path.exists():
        facts = json.loads(path.read_text(encoding="utf-8"))
        return Shape(
            hidden=facts["hidden_size"],
            layers=facts["num_hidden_layers"],
            feed_forward=facts["intermediate_size"],
            vocabulary=facts["vocab_size"],
            heads=facts["num_attention_heads"],
            kv_heads=facts.get("num_key_value_heads", facts["num_attention_heads"]),
            tied=facts.get("tie_word_embeddings", False),
        )
    for name, shape in _KNOWN.items():
        if base.rpartition("/")[2].removesuffix("-Instruct") == name:
            return shape
    raise ConfigError(
        f"the size of {base} is not known: download it (`hf download {base} --local-dir FOLDER`), and name "
        "FOLDER"
    )


def needs_of(recipe: Recipe, shape: Shape, *, gpus: int, gpu: float) -> Needs:
    """Return what GRPO by a recipe needs."""
    grpo, lora = recipe.grpo, recipe.model.lora
    assert grpo is not None
    trained = shape.weights if lora is None else shape.lora(lora.rank)
    kept = 0 if lora is None else shape.weights
    wide = 8 if recipe.model.dtype == "bfloat16" and lora is None else 16  # with gradients and AdamW
    states = (trained * wide / (1 if lora else gpus) + 2 * kept) / _GB
    tokens = grpo.micro_batch * (PROMPT + grpo.max_tokens)
    layer = 34 * tokens * shape.hidden
    logits = grpo.micro_batch * grpo.max_tokens * shape.vocabulary * 4 * 2
    passes = (2 * tokens * shape.hidden * shape.layers + layer + logits) / _GB
    vllm = grpo.vllm
    return Needs(
        weights=shape.weights,
        states=states,
        passes=passes,
        vllm=0.0 if vllm is None else gpu * vllm.memory,
        vllm_least=0.0 if vllm is None else 2 * shape.weights / vllm.tensor_parallel / _GB + _CACHE,
        sleeps=vllm is not None and vllm.sleep,
        disk=(CHECKPOINTS * trained * 16 + trained * 4 + (shape.weights * 2 if lora else 0)) / _GB,
    )
