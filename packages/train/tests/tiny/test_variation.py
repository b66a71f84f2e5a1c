"""How prompts vary in training; these tests need torch and run by `make test-trainers`."""

from collections import Counter
from random import Random

import anyio
import pytest
import torch
from tiny_conductor.model import TinyConductor
from tiny_conductor.texts import END, UNVARIED, Variation, encode, prompt_text
from tiny_conductor.training import Prompts, padded, roll_out, scores_of
from tiny_conductor.world import Workshop

from podium_train import reward_of

pytestmark = pytest.mark.timeout(300)
WORLD = Workshop()
EPISODES = WORLD.episodes("train", 40, seed=1)


def test_places() -> None:
    """The workers keep their order, and no number is in each pool."""
    random, numbers = Random(1), Counter[int]()
    for episode in EPISODES:
        placed = Variation(places=7).placed(episode, random)
        assert [name for name in placed.workers if name] == list(episode.workers)
        assert len(placed.workers) == len(placed.cards) == 7
        numbers.update(number for number, name in enumerate(placed.workers) if name)
        lists = (
            f'model_id = [{placed.workers.index(episode.workers[0])}]\nsubtasks = ["x"]\naccess_list = [[]]'
        )
        assert anyio.run(reward_of, lists, placed, WORLD).value in (0.5, 1.0)
        assert WORLD.message(placed).startswith(f"{episode.question}\n")
    assert max(numbers.values()) < len(EPISODES)
    assert UNVARIED.placed(EPISODES[0], random) == EPISODES[0]


def test_stretched_positions(small: TinyConductor) -> None:
    """A factor of 1 changes nothing, and another one changes the probabilities of texts."""
    rows = encode(small.tokenizer, [prompt_text(WORLD.message(episode)) for episode in EPISODES[:2]])
    texts = padded(encode(small.tokenizer, ["code: 1 so 1" + END] * 2))[:, None]
    plain, same, other = (
        scores_of(small.model, Prompts.of(rows, stretch), texts).logps
        for stretch in (None, torch.ones(2), torch.tensor([1.0, 1.4]))
    )
    assert torch.allclose(plain, same)
    assert torch.allclose(plain[0], other[0])
    assert not torch.allclose(plain[1], other[1], atol=1e-3)


def test_rollouts_of_varied_prompts(small: TinyConductor) -> None:
    """Texts are scored with the prompts from which they were sampled; plans are for the whole question."""
    generator = torch.Generator().manual_seed(0)
    found = roll_out(
        small, WORLD, EPISODES[:4], texts=2, generator=generator, variation=(Variation(), Random(1))
    )
    assert found.prompts.stretch is not None
    assert list(found.episodes) == list(EPISODES[:4])
    again = scores_of(small.model, found.prompts, found.tokens).logps
    assert torch.isfinite(again).all()
