"""A tiny conductor: a model with its tokenizer, as a folder that Hugging Face's libraries load."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from podium_train.environments import Episode
from podium_train.runs import share_files
from podium_train.tiny.model import TinyConfig, TinyModel
from podium_train.tiny.prompt import CHAT_TEMPLATE, END, tiny_message
from podium_train.tiny.tokens import END_ID, PAD, PAD_ID, train_tokenizer

MAX_POSITIONS = 512
"""Maximum length of a prompt and its text, in tokens, that the folder states."""


@dataclass(frozen=True, slots=True)
class TinyConductor:
    """A model with its tokenizer."""

    model: TinyModel
    tokenizer: Tokenizer
    message: Callable[[Episode], str] = tiny_message
    """Returns what the model reads of an episode; the default is for the world of specialists."""

    @classmethod
    def new(cls, seed: int, config: TinyConfig) -> "TinyConductor":
        """Return a conductor with random weights and the tokenizer of the world."""
        torch.manual_seed(seed)
        return cls(TinyModel(config), train_tokenizer())

    @classmethod
    def load(cls, folder: Path, message: Callable[[Episode], str] = tiny_message) -> "TinyConductor":
        """Read a folder that `save`, or a trainer for Hugging Face's models, wrote.

        Args:
            folder: the folder.
            message: what the model was trained to read of an episode; it is not in the folder.

        Raises:
            FileNotFoundError: the folder has no such model.
        """
        facts = json.loads((folder / "config.json").read_text())
        config = TinyConfig(
            vocabulary=facts["vocab_size"],
            width=facts["hidden_size"],
            layers=facts["num_hidden_layers"],
            heads=facts["num_attention_heads"],
            feed_forward=facts["intermediate_size"],
        )
        model = TinyModel(config)
        model.load_state_dict(load_file(folder / "model.safetensors"))
        return cls(model, Tokenizer.from_file(str(folder / "tokenizer.json")), message)

    def save(self, folder: Path) -> None:
        """Write the folder: weights, configuration, tokenizer and chat template."""
        folder.mkdir(parents=True, exist_ok=True)
        config = self.model.config
        facts = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": config.vocabulary,
            "hidden_size": config.width,
            "num_hidden_layers": config.layers,
            "num_attention_heads": config.heads,
            "num_key_value_heads": config.heads,
            "intermediate_size": config.feed_forward,
            "hidden_act": "silu",
            "max_position_embeddings": MAX_POSITIONS,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10_000.0,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "mlp_bias": False,
            "eos_token_id": END_ID,
            "pad_token_id": PAD_ID,
            "torch_dtype": "float32",
        }
        words = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": PAD,
            "model_max_length": MAX_POSITIONS,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        }
        (folder / "config.json").write_text(json.dumps(facts, indent=2) + "\n")
        (folder / "tokenizer_config.json").write_text(json.dumps(words, indent=2) + "\n")
        self.tokenizer.save(str(folder / "tokenizer.json"))
        save_file(dict(self.model.state_dict()), folder / "model.safetensors", {"format": "pt"})
        share_files(folder, like="tokenizer.json")
