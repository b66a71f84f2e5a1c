"""Writes an exported conductor as one GGUF file, which llama.cpp's server loads. Llama models only."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

from podium.errors import ConfigError
from podium_train.trl.models import quiet

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
_DIGITS = {"type": "Digits", "individual_digits": True}
_FILE_TYPES = {torch.float32: gguf.LlamaFileType.ALL_F32, torch.bfloat16: gguf.LlamaFileType.MOSTLY_BF16}


@quiet()
def write_gguf(model: Path, file: Path) -> None:
    """Write the weights in their own type, the tokenizer and the chat template of a folder."""
    pre = _splitting(json.loads((model / "tokenizer.json").read_text(encoding="utf-8")), model)
    read = AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    config, dtype = read.config, next(read.parameters()).dtype
    if not isinstance(config, LlamaConfig) or dtype not in _FILE_TYPES or config.attention_bias:
        raise _unknown(model, f"it is {type(read).__name__} in {str(dtype).removeprefix('torch.')}")
    writer = gguf.GGUFWriter(file, "llama")
    _add_shape(writer, config, model)
    writer.add_file_type(_FILE_TYPES[dtype])
    _add_tokenizer(writer, AutoTokenizer.from_pretrained(model), pre, config.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in read.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        found = names.get_name(name, try_suffixes=(".weight",))
        if found is None:
            raise _unknown(model, f"it has the weights {name}")
        _add_weight(writer, found, _permuted(name, weight, config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _unknown(model: Path, why: str) -> ConfigError:
    return ConfigError(f"{model} cannot be written as GGUF: {why}; use convert_hf_to_gguf.py of llama.cpp")


def _splitting(tokenizer: Mapping[str, Any], model: Path) -> str:
    """Return llama.cpp's name for how a tokenizer splits a text before it merges bytes."""
    found = tokenizer["pre_tokenizer"] or {}
    parts = [dict(each) for each in found.get("pretokenizers", [found])]
    for each in parts:
        each.pop("trim_offsets", None)
    if tokenizer["model"]["type"] == "BPE" and tokenizer["normalizer"] is None:
        for name, known in (("gpt-2", [_BYTES]), ("smollm", [_DIGITS, _BYTES])):
            if parts == known:
                return name
    raise _unknown(model, "its tokenizer splits texts in another way than those of GPT-2 and SmolLM")


def _add_shape(writer: gguf.GGUFWriter, config: LlamaConfig, model: Path) -> None:
    rope = config.rope_parameters
    theta = None if rope is None else rope["rope_theta"]
    if rope is None or theta is None or rope["rope_type"] != "default":
        raise _unknown(model, "it scales the positions of its tokens")
    size = config.head_dim or config.hidden_size // config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads or config.num_attention_heads)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Any, pre: str, size: int) -> None:
    added = tokenizer.added_tokens_decoder
    tokens = [f"[PAD{number}]" for number in range(size)]
    types = [gguf.TokenType.UNUSED] * size
    for token, number in tokenizer.get_vocab().items():
        tokens[number], types[number] = token, gguf.TokenType.NORMAL
        if number in added:
            is_special = added[number].special
            types[number] = gguf.TokenType.CONTROL if is_special else gguf.TokenType.USER_DEFINED
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_add_bos_token(value=False)  # chat templates write it
    writer.add_chat_template(tokenizer.chat_template)


def _permuted(name: str, weight: Tensor, config: LlamaConfig) -> Tensor:
    """Return weights with pairs of rotated values next to each other, as llama.cpp wants them."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for part, count in heads.items():
        if part in name and count is not None:
            return weight.reshape(count, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)
    return weight


def _add_weight(writer: gguf.GGUFWriter, name: str, weight: Tensor) -> None:
    if weight.dtype == torch.float32 or weight.dim() == 1:
        writer.add_tensor(name, weight.float().numpy())
    else:
        bits = weight.contiguous().view(torch.int16).numpy()
        writer.add_tensor(name, bits, raw_dtype=gguf.GGMLQuantizationType.BF16)
