"""Merges the small matrices of LoRA into the weights."""

from pathlib import Path

from peft import AutoPeftModelForCausalLM

from podium_train.trl.loading import quiet


@quiet()
def merge_lora(model: Path, out: Path, *, dtype: str) -> None:
    """Write the whole weights of a model that was trained with LoRA.

    Args:
        model: the folder of the trained matrices, which names its base.
        out: the folder to write.
        dtype: the type of the weights.
    """
    AutoPeftModelForCausalLM.from_pretrained(model, dtype=dtype).merge_and_unload().save_pretrained(out)
