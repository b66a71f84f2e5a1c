"""Texts of the model for episodes, with their rewards."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import anyio
import torch
from torch import Tensor

from podium_train.environments import Environment, Episode
from podium_train.reward import Reward, reward_of
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.prompt import prompt_text
from podium_train.tiny.sampler import Prompts, sample, texts_of
from podium_train.tiny.tokens import PAD_ID, encode
from podium_train.tiny.variation import Variation


@dataclass(frozen=True, slots=True)
class Rollouts:
    """G texts for each of P episodes."""

    episodes: Sequence[Episode]
    prompts: Prompts
    tokens: Tensor
    """(P, G, T)."""
    texts: list[str]
    """P · G texts, episode by episode."""
    rewards: list[Reward]
    """The rewards of `texts`."""

    @property
    def values(self) -> Tensor:
        """The rewards as numbers, (P, G); NaN where a reward cannot be known."""
        values = [float("nan") if reward.value is None else reward.value for reward in self.rewards]
        return torch.tensor(values).view(len(self.episodes), -1)

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each text, with the token of the end."""
        lengths: list[int] = (self.tokens != PAD_ID).sum(-1).flatten().tolist()
        return lengths

    @property
    def grades(self) -> list[float]:
        """The grades of the answers; 0 for a text without a valid plan or with an unknown outcome."""
        return [reward.outcome.score if reward.outcome else 0.0 for reward in self.rewards]


def roll_out(  # noqa: PLR0913 - three have defaults
    conductor: TinyConductor,
    environment: Environment,
    episodes: Sequence[Episode],
    *,
    texts: int = 1,
    temperature: float = 1.0,
    generator: torch.Generator,
    variation: tuple[Variation, Random] | None = None,
) -> Rollouts:
    """Sample texts for episodes and reward them.

    Args:
        conductor: writes the texts.
        environment: carries out the plans.
        episodes: what the prompts are about.
        texts: number of texts for each episode.
        temperature: 0 for the most probable text.
        generator: the source of randomness.
        variation: how prompts vary in training, and its source of randomness; `None` varies nothing.
    """
    read, stretch = episodes, None
    if variation is not None:
        how, random = variation
        read = [how.thinned(episode, random) for episode in episodes]
        stretch = how.factors(episodes, random)
    rows = encode(conductor.tokenizer, [prompt_text(conductor.message(episode)) for episode in read])
    prompts = Prompts.of(rows, stretch)
    tokens = sample(conductor.model, prompts, texts, temperature=temperature, generator=generator)
    written = texts_of(conductor.tokenizer, tokens)
    owners = [episode for episode in episodes for _ in range(texts)]

    async def rewarded() -> list[Reward]:
        return [
            await reward_of(text, episode, environment) for text, episode in zip(written, owners, strict=True)
        ]

    return Rollouts(episodes, prompts, tokens, written, anyio.run(rewarded))
