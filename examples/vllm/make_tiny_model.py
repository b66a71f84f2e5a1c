r"""Write a tiny chat model with random weights, so that a real vLLM server can run on any CPU.

Why: the wire between Podium and vLLM (streaming, usage, structured outputs, cancelling, error bodies) is
worth testing against the real server, and none of it depends on what the model says. A random model is
also the worst case for a plan schema: whatever the grammar allows, it writes.

What: a folder that vLLM and `transformers` load like any other checkpoint. It holds a two-layer Qwen2 of
about 0.2 million parameters (safetensors), a byte-level BPE tokenizer whose merges are learnt from the
help texts that ship with Python, and a ChatML chat template. Nothing is downloaded. The weights depend on
`SEED` and the torch version, the merges on the Python version.

How: it needs `torch` and `transformers`, which come with vLLM and are no dependency of Podium.

    python make_tiny_model.py tiny
    export VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_CPU_KVCACHE_SPACE=1
    export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
    python -m vllm.entrypoints.openai.api_server --model tiny --served-model-name tiny \
        --enforce-eager --dtype bfloat16 --max-model-len 4096 --host 127.0.0.1 --port 8199 \
        --structured-outputs-config '{"backend": "xgrammar", "disable_any_whitespace": true}' \
        --enable-log-requests

The first variable keeps the model in the engine's process: as a process of its own it polls, and on a
machine with two cores that polling was seen to hold up every other process for seconds. Without
`disable_any_whitespace` a random model spends its tokens on blanks between the parts of the JSON.
`--enable-log-requests` makes the server log each abort.
"""

import argparse
import sys
from pathlib import Path
from pydoc_data.topics import topics

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import manual_seed
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SEED = 0

VOCABULARY = 2048
"""Tokens in all: the special ones, the 256 bytes and the merges. English takes two or three bytes a token."""

CONTEXT = 32768
"""Positions the model accepts, in tokens. They cost no weights; the server's flag sets the real limit."""

TEXT_END = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"

SPECIAL = [TEXT_END, TURN_START, TURN_END]
"""The special tokens. The trainer numbers them first, so that a token's place here is its id."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    f"{TURN_START}{{{{ message['role'] }}}}\n{{{{ message['content'] }}}}{TURN_END}\n"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{TURN_START}assistant\n{{% endif %}}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Learn a byte-level BPE tokenizer that encodes any text without an unknown token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((topics[name] for name in sorted(topics)), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=TEXT_END,
        additional_special_tokens=[TURN_START],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
    )


def make_model() -> Qwen2ForCausalLM:
    """Make a Qwen2 with random weights in bfloat16 that stops at the end of a turn or of the text."""
    manual_seed(SEED)
    turn_end, text_end = SPECIAL.index(TURN_END), SPECIAL.index(TEXT_END)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            eos_token_id=turn_end,
            pad_token_id=text_end,
        )
    )
    model.generation_config = GenerationConfig(eos_token_id=[turn_end, text_end], pad_token_id=text_end)
    return model.bfloat16()


def main() -> None:
    """Write the model, its tokenizer and its chat template to the folder named on the command line."""
    parser = argparse.ArgumentParser(description="Write a tiny chat model with random weights.")
    parser.add_argument("folder", type=Path, help="where to write it; made if it does not exist")
    folder: Path = parser.parse_args().folder

    tokenizer = make_tokenizer()
    model = make_model()
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    sys.stdout.write(f"{model.num_parameters():,} parameters, {len(tokenizer):,} tokens: {folder}\n")


if __name__ == "__main__":
    main()
