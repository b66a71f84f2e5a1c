"""The tiny model in plain PyTorch, and its folder."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from podium_train.runs import share_files
from tiny_conductor.texts import CHAT_TEMPLATE, END, END_ID, PAD, PAD_ID, train_tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyConfig:
    """The size of a model; the default has 0.56 million parameters."""

    vocabulary: int = 512
    width: int = 128
    layers: int = 3
    heads: int = 4
    feed_forward: int = 256
    init_std: float = 0.08
    """Standard deviation of the first weights. 0.02 is too small for this width: reading the index is learned
    half as fast."""


@dataclass(slots=True)
class Cache:
    """Keys and values of one layer."""

    keys: Tensor  # (P, H, S, D)
    values: Tensor


class Attention(nn.Module):
    """Self-attention with rotary positions."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.q_proj = nn.Linear(config.width, config.width, bias=False)
        self.k_proj = nn.Linear(config.width, config.width, bias=False)
        self.v_proj = nn.Linear(config.width, config.width, bias=False)
        self.o_proj = nn.Linear(config.width, config.width, bias=False)

    def project(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, (…, H, T, D), of `x`, (…, T, width)."""
        split = (*x.shape[:-1], self.heads, -1)
        q, k, v = (
            layer(x).view(split).transpose(-3, -2) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        return _rotated(q, angles), _rotated(k, angles), v

    def join(self, mixed: Tensor) -> Tensor:
        """Join the heads of (…, H, T, D)."""
        out: Tensor = self.o_proj(mixed.transpose(-3, -2).flatten(-2))
        return out


class FeedForward(nn.Module):
    """The gated feed-forward layer."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.feed_forward, bias=False)
        self.up_proj = nn.Linear(config.width, config.feed_forward, bias=False)
        self.down_proj = nn.Linear(config.feed_forward, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to (…, width)."""
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One layer."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.input_layernorm = nn.RMSNorm(config.width, eps=1e-6)
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=1e-6)


class Body(nn.Module):
    """Embeddings, layers and the last norm; named `model` in the weights."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=1e-6)


class TinyModel(nn.Module):
    """A causal language model whose embeddings are also its output weights."""

    def __init__(self, config: TinyConfig = TinyConfig()) -> None:
        super().__init__()
        self.config = config
        self.model = Body(config)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=config.init_std)

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosine and sine of the rotary positions, (…, 1, T, D)."""
        size = self.config.width // self.config.heads
        rates = 10_000.0 ** (-torch.arange(0, size, 2) / size)
        turns = positions[..., None].float() * rates
        both = torch.cat((turns, turns), -1).unsqueeze(-3)
        return both.cos(), both.sin()

    def read_prompts(self, tokens: Tensor, stretch: Tensor | None = None) -> list[Cache]:
        """Return the keys and values of prompts.

        Args:
            tokens: (P, S), filled up on the right.
            stretch: (P), factors of the positions; `None` for 1.
        """
        x = self.model.embed_tokens(tokens)
        positions = torch.arange(tokens.shape[1])[None]
        angles = self.angles(_stretched(positions, stretch))  # (P or 1, 1, S, D)
        caches = []
        for layer in self.model.layers:
            assert isinstance(layer, Layer)
            q, k, v = layer.self_attn.project(layer.input_layernorm(x), angles)
            caches.append(Cache(k, v))
            if len(caches) == len(self.model.layers):
                break  # no text reads a prompt's last output
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer.self_attn.join(mixed)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return caches

    def read_texts(
        self,
        tokens: Tensor,
        lengths: Tensor,
        prompts: list[Cache],
        earlier: list[Cache] | None = None,
        stretch: Tensor | None = None,
    ) -> tuple[Tensor, list[Cache]]:
        """Return the logits after each token of the texts, (P, G, T, V), and the texts' keys and values.

        Args:
            tokens: (P, G, T); the first one is the last token of the prompt.
            lengths: (P), the numbers of tokens that `prompts` has.
            prompts: what `read_prompts` returned for the prompts without their last token.
            earlier: keys and values of the texts' tokens before these.
            stretch: (P), factors of the positions; `None` for 1.
        """
        count, start = tokens.shape[-1], earlier[0].keys.shape[-2] if earlier else 0
        positions = lengths[:, None] + start + torch.arange(count)  # (P, T)
        angles = self.angles(_stretched(positions, stretch)[:, None])  # (P, 1, 1, T, D)
        size = prompts[0].keys.shape[-2]
        hidden = torch.arange(size) >= lengths[:, None]  # (P, S)
        later = torch.ones(count, start + count, dtype=torch.bool).triu(start + 1)  # (T, T of all)
        mask = torch.cat((hidden[:, None, :].expand(-1, count, -1), later.expand(len(hidden), -1, -1)), -1)[
            :, None, None
        ]
        x = self.model.embed_tokens(tokens)
        caches = []
        for number, layer in enumerate(self.model.layers):
            assert isinstance(layer, Layer)
            q, k, v = layer.self_attn.project(layer.input_layernorm(x), angles)  # (P, G, H, T, D)
            if earlier:
                k = torch.cat((earlier[number].keys, k), -2)
                v = torch.cat((earlier[number].values, v), -2)
            caches.append(Cache(k, v))
            x = x + layer.self_attn.join(_attended(q, k, v, prompts[number], mask))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.model.norm(x) @ self.model.embed_tokens.weight.T, caches


def _attended(q: Tensor, k: Tensor, v: Tensor, prompt: Cache, mask: Tensor) -> Tensor:
    """Attend to the prompt and to the text, (P, G, H, T, D)."""
    prompts, texts, heads, count, _ = q.shape
    size = prompt.keys.shape[-2]
    flat = q.transpose(1, 2).flatten(2, 3)  # (P, H, G·T, D)
    to_prompt = (flat @ prompt.keys.transpose(-1, -2)).view(prompts, heads, texts, count, size)
    to_text = q @ k.transpose(-1, -2)
    scores = torch.cat((to_prompt.transpose(1, 2), to_text), -1) * q.shape[-1] ** -0.5  # (P, G, H, T, S + T)
    weights = scores.masked_fill(mask, -torch.inf).softmax(-1)
    of_prompt = weights[..., :size].transpose(1, 2).flatten(2, 3) @ prompt.values  # (P, H, G·T, D)
    of_text = weights[..., size:] @ v
    joined: Tensor = of_prompt.view(prompts, heads, texts, count, -1).transpose(1, 2) + of_text
    return joined


def _stretched(positions: Tensor, stretch: Tensor | None) -> Tensor:
    """Return (P, T) positions times the factors of the prompts, (P)."""
    return positions if stretch is None else positions * stretch[:, None]


def _rotated(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    cosine, sine = angles
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


MAX_POSITIONS = 512
"""Maximum length of a prompt and its text, in tokens, that the folder states."""


@dataclass(frozen=True, slots=True)
class TinyConductor:
    """A model with its tokenizer."""

    model: TinyModel
    tokenizer: Tokenizer

    @classmethod
    def new(cls, seed: int, config: TinyConfig) -> "TinyConductor":
        """Return a conductor with random weights and the tokenizer of the world."""
        torch.manual_seed(seed)
        return cls(TinyModel(config), train_tokenizer())

    @classmethod
    def load(cls, folder: Path) -> "TinyConductor":
        """Read a folder that `save`, or a trainer for Hugging Face's models, wrote.

        Args:
            folder: the folder.

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
        return cls(model, Tokenizer.from_file(str(folder / "tokenizer.json")))

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
