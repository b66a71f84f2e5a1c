"""The tiny model in plain PyTorch: the arithmetic and the weights' names of Llama, as Hugging Face loads it.

Letters of shapes: P prompts, S tokens of a prompt, G texts for each prompt, T tokens of a text, H heads, D
size of a head, V tokens of the vocabulary. All texts of a prompt share its keys and values, so that a
prompt is read once.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


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
