"""A random model with a tokenizer, as a folder that transformers loads, for tests of trainers."""

import os
from pathlib import Path

import torch
from tiny_conductor.world import Workshop
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
"""The environment of commands."""
NAMED = {"pad_token": "<pad>", "eos_token": "<end>"}
TEMPLATE = (
    "{% for m in messages %}{{ '<' + m.role + '>' + m.content }}"
    "{% if m.role == 'assistant' %}<end>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
PLAN = 'model_id = [0]\nsubtasks = ["lookup"]\naccess_list = [[]]'


def make_base(folder: Path) -> None:
    """Write the folder."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<pad>", "<end>", "<user>", "<assistant>", "<system>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        [PLAN] * 9, trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=alphabet)
    )
    words = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **NAMED)
    words.chat_template = TEMPLATE
    words.save_pretrained(folder)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=8192,
            pad_token_id=words.pad_token_id,
            eos_token_id=words.eos_token_id,
            tie_word_embeddings=True,
        )
    )
    _teach_plans(model, words)
    model.save_pretrained(folder)


def _teach_plans(model: LlamaForCausalLM, words: PreTrainedTokenizerFast) -> None:
    """Train until most texts are valid plans for random workers, so that rewards differ."""
    world = Workshop()
    episodes = world.episodes("train", 640, seed=5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for start in range(0, len(episodes), 8):
        batch = episodes[start : start + 8]
        plans = [f"{PLAN.replace('[0]', f'[{number % 4}]', 1)}<end>" for number in range(8)]
        prompts = [f"<user>{world.message(episode)}<assistant>" for episode in batch]
        both = [prompt + plan for prompt, plan in zip(prompts, plans, strict=True)]
        tokens = words(both, return_tensors="pt", padding=True, padding_side="left")
        labels = tokens["input_ids"].clone()
        labels[:, : -len(words(plans[0])["input_ids"])] = -100
        loss = model(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], labels=labels
        ).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
