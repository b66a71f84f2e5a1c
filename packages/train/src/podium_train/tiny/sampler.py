"""Samples texts: prompts are read once, and all texts grow side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from podium_train.tiny.model import TinyModel
from podium_train.tiny.tokens import END_ID, PAD_ID

MAX_TOKENS = 56
"""Maximum length of a text, in tokens; plans with three steps need about 40."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts as tokens."""

    tokens: Tensor
    """(P, S), filled up on the right, without the last token of each prompt."""
    lengths: Tensor
    """(P), the numbers of these tokens."""
    last: Tensor
    """(P), the last token of each prompt."""
    stretch: Tensor | None = None
    """(P), factors of all positions in each prompt and its texts; `None` for 1."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], stretch: Tensor | None = None) -> "Prompts":
        """Return prompts from lists of tokens."""
        lengths = torch.tensor([len(row) - 1 for row in rows])
        last = torch.tensor([row[-1] for row in rows])
        return cls(padded([row[:-1] for row in rows]), lengths, last, stretch)


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return rows of tokens as (rows, longest), filled up on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD_ID] * (longest - len(row))] for row in rows])


@torch.no_grad()
def sample(
    model: TinyModel, prompts: Prompts, texts: int, *, temperature: float = 1.0, generator: torch.Generator
) -> Tensor:
    """Sample texts for each prompt.

    Args:
        model: the model.
        prompts: P prompts.
        texts: G, the number of texts for each prompt.
        temperature: 0 takes the most probable token each time.
        generator: the source of randomness.

    Returns:
        (P, G, T) tokens, with the token of the end, filled up with `PAD_ID`. A text that is too long has no
        token of the end.
    """
    cache = model.read_prompts(prompts.tokens, prompts.stretch)
    token = prompts.last[:, None].expand(-1, texts)  # (P, G)
    done = torch.zeros_like(token, dtype=torch.bool)
    earlier, drawn = None, []
    for _ in range(MAX_TOKENS):
        logits, earlier = model.read_texts(token[..., None], prompts.lengths, cache, earlier, prompts.stretch)
        token = _draw(logits[:, :, 0], temperature, generator).masked_fill(done, PAD_ID)
        drawn.append(token)
        done = done | (token == END_ID)
        if bool(done.all()):
            break
    return torch.stack(drawn, -1)


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Return one token for each row of (P, G, V)."""
    if temperature == 0:
        return logits.argmax(-1)
    chances = (logits / temperature).softmax(-1).flatten(0, 1)
    return torch.multinomial(chances, 1, generator=generator).view(logits.shape[:2])


def texts_of(tokenizer: Tokenizer, tokens: Tensor) -> list[str]:
    """Return the texts of tokens (P, G, T), prompt by prompt."""
    rows = tokens.flatten(0, 1).tolist()
    return tokenizer.decode_batch(rows, skip_special_tokens=True)
