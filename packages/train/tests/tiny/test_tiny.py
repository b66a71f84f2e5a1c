"""The tiny model, its sampler and its GRPO loop; these tests need torch and run by `make test-trainers`."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tiny_conductor.model import TinyConductor
from tiny_conductor.texts import encode, prompt_text
from tiny_conductor.training import Grpo, Prompts, Update, roll_out, sample, scores_of, texts_of, train
from tiny_conductor.world import Workshop
from transformers import AutoModelForCausalLM, AutoTokenizer

from podium.types import Plan
from podium_train import EarlierRound, Episode, PlanOutcome

pytestmark = pytest.mark.timeout(300)
WORLD = Workshop()
EPISODES = WORLD.episodes("train", 6, seed=1)


def prompts_of(conductor: TinyConductor) -> tuple[list[list[int]], Prompts]:
    rows = encode(conductor.tokenizer, [prompt_text(WORLD.message(episode)) for episode in EPISODES])
    assert len({len(row) for row in rows}) > 1
    return rows, Prompts.of(rows)


def test_hugging_face_loads_the_folder(small: TinyConductor, tmp_path: Path) -> None:
    """With the same tokens, the same log-probabilities, and the same most probable texts."""
    small.save(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    rows, prompts = prompts_of(small)
    generator = torch.Generator().manual_seed(0)
    texts = sample(small.model, prompts, 2, generator=generator)
    scores = scores_of(small.model, prompts, texts)
    greedy = texts_of(small.tokenizer, sample(small.model, prompts, 1, temperature=0, generator=generator))
    for number, (episode, row) in enumerate(zip(EPISODES, rows, strict=True)):
        message = [{"role": "user", "content": WORLD.message(episode)}]
        chat = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=True)
        assert chat["input_ids"] == row
        text = [token for token in texts[number, 1].tolist() if token]
        with torch.no_grad():
            logits = model(torch.tensor([row + text])).logits[0, len(row) - 1 : -1]
        theirs = logits.log_softmax(-1).gather(-1, torch.tensor(text)[:, None])[:, 0]
        ours = scores.logps[number, 1, : len(text)]
        assert torch.allclose(ours, theirs, atol=1e-4)
        made = model.generate(torch.tensor([row]), max_new_tokens=56, do_sample=False)
        assert tokenizer.decode(made[0, len(row) :], skip_special_tokens=True) == greedy[number]


def test_texts_are_sampled_with_their_probabilities(small: TinyConductor) -> None:
    """The first tokens of 1,000 texts are as frequent as the model says."""
    rows, _ = prompts_of(small)
    prompts = Prompts.of(rows[:1])
    texts = sample(small.model, prompts, 1000, generator=torch.Generator().manual_seed(0))
    first = texts[0, :, 0]
    share = (first == first.mode().values).float().mean().item()
    token = first.mode().values.view(1, 1, 1)
    chance = scores_of(small.model, prompts, token).logps.exp().item()
    assert abs(share - chance) < 4 * math.sqrt(chance * (1 - chance) / 1000) + 1e-6


class Wish(Workshop):
    """A world in which only plans whose first worker is 0 are right; plans of worker 1 have no outcome."""

    calls = 0

    async def carry_out(
        self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None
    ) -> PlanOutcome:
        type(self).calls += 1
        if plan.steps[0].worker == 1:
            return None  # type: ignore[return-value]  # as environments do for outcomes that are unknown
        return PlanOutcome(score=float(plan.steps[0].worker == 0))


def first_workers(conductor: TinyConductor) -> Sequence[int | None]:
    """Return the first worker of some sampled plans; `None` for a text without a plan."""
    generator = torch.Generator().manual_seed(1)
    rollouts = roll_out(conductor, WORLD, EPISODES, texts=40, generator=generator)
    return [reward.plan.steps[0].worker if reward.plan else None for reward in rollouts.rewards]


def test_the_loop_learns_what_is_rewarded(tmp_path: Path, small: TinyConductor) -> None:
    """Worker 0 becomes more frequent; the loss is finite; the run can be stopped."""
    small.save(tmp_path)
    conductor = TinyConductor.load(tmp_path)
    before = first_workers(conductor).count(0)
    assert before > 10
    updates: list[Update] = []

    def after(update: Update) -> bool:
        updates.append(update)
        return len(updates) == 12

    train(conductor, Wish(), Grpo(updates=500, prompts=8, texts=16, lr=3e-3), seed=0, after=after)
    assert len(updates) == 12
    assert all(math.isfinite(update.loss) for update in updates)
    assert all(update.rollouts.values.isnan().any() for update in updates[:3])
    assert Wish.calls > 0
    assert first_workers(conductor).count(0) > 1.5 * before


def test_the_same_seed_gives_the_same_weights(tmp_path: Path, small: TinyConductor) -> None:
    small.save(tmp_path)
    trained = []
    for seed in (3, 3, 4):
        conductor = TinyConductor.load(tmp_path)
        train(conductor, WORLD, Grpo(updates=2, prompts=2, texts=4), seed=seed)
        trained.append(torch.cat([weight.flatten() for weight in conductor.model.parameters()]))
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[0], trained[2])
