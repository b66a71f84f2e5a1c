"""Log-probabilities of texts, as the warm start and GRPO need them."""

from typing import NamedTuple

import torch
from torch import Tensor

from podium_train.tiny.model import TinyModel
from podium_train.tiny.sampler import Prompts
from podium_train.tiny.tokens import PAD_ID


class Scores(NamedTuple):
    """What the model thinks of texts; 0 where a text is filled up."""

    logps: Tensor
    """(P, G, T), the log-probability of each token."""
    entropy: Tensor
    """(P, G, T), the entropy of the distribution that each token was drawn from, in nats."""
    mask: Tensor
    """(P, G, T), 1 for tokens of the text."""


def scores_of(model: TinyModel, prompts: Prompts, texts: Tensor) -> Scores:
    """Return log-probabilities and entropies of the tokens of texts, (P, G, T)."""
    first = prompts.last[:, None, None].expand(-1, texts.shape[1], 1)
    inputs = torch.cat((first, texts[..., :-1]), -1)
    cache = model.read_prompts(prompts.tokens, prompts.stretch)
    logits, _ = model.read_texts(inputs, prompts.lengths, cache, stretch=prompts.stretch)
    every = logits.log_softmax(-1)
    mask = (texts != PAD_ID).float()
    entropy = -(every.exp() * every).sum(-1)
    logps = every.gather(-1, texts[..., None]).squeeze(-1)
    return Scores(logps * mask, entropy * mask, mask)
