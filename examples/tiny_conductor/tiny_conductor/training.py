"""Samples texts, scores them, and trains: the warm start, and GRPO in one loop."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import anyio
import torch
from tokenizers import Tokenizer
from torch import Tensor

from podium_train.environments import Environment, Episode
from podium_train.rewards import Reward, reward_of
from tiny_conductor.model import TinyConductor, TinyModel
from tiny_conductor.texts import END, END_ID, PAD_ID, UNVARIED, Variation, encode, prompt_text, right_texts
from tiny_conductor.world import Workshop

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
    rows = encode(conductor.tokenizer, [prompt_text(Workshop().message(episode)) for episode in read])
    prompts = Prompts.of(rows, stretch)
    tokens = sample(conductor.model, prompts, texts, temperature=temperature, generator=generator)
    written = texts_of(conductor.tokenizer, tokens)
    owners = [episode for episode in episodes for _ in range(texts)]

    async def rewarded() -> list[Reward]:
        return [
            await reward_of(text, episode, environment) for text, episode in zip(written, owners, strict=True)
        ]

    return Rollouts(episodes, prompts, tokens, written, anyio.run(rewarded))


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """Settings of the warm start."""

    steps: int = 600
    """Number of steps. Which row a question needs is learned after 150, reading the rows after 450."""
    prompts: int = 32
    """Prompts of a step."""
    texts: int = 4
    """Texts for each prompt."""
    questions: float = 0.2
    """Weight of the loss on the prompts; 0 does not compute it."""
    variation: Variation = UNVARIED
    """How prompts vary."""
    lr: float = 2e-3
    """Highest learning rate; it rises for 30 steps and falls to a tenth along half a cosine."""


def warm_up(
    conductor: TinyConductor,
    settings: WarmUp,
    *,
    seed: int,
    log: Callable[[dict[str, float]], None] = lambda _: None,
) -> None:
    """Train the conductor on right ones of random plans for the training split."""
    optimizer = torch.optim.AdamW(
        conductor.model.parameters(), lr=settings.lr, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        settings.lr,
        total_steps=settings.steps,
        pct_start=min(0.3, 30 / settings.steps),
        final_div_factor=0.4,
    )
    random = Random(f"warm start {seed}")
    for step in range(settings.steps):
        drawn = Workshop().episodes("train", settings.prompts, seed=random.getrandbits(40))
        episodes = [settings.variation.placed(episode, random) for episode in drawn]
        read = [settings.variation.thinned(episode, random) for episode in episodes]
        rows = encode(conductor.tokenizer, [prompt_text(Workshop().message(episode)) for episode in read])
        stretch = settings.variation.factors(episodes, random)
        texts = [text + END for each in episodes for text in right_texts(each, random, settings.texts)]
        tokens = padded(encode(conductor.tokenizer, texts)).view(settings.prompts, settings.texts, -1)
        plans = scores_of(conductor.model, Prompts.of(rows, stretch), tokens)
        loss = of_plans = _loss(plans)
        of_questions = 0.0
        if settings.questions:
            # Reading the questions as text of its own makes their words known before any reward depends on
            # them.
            starts = Prompts.of([[row[0], row[0]] for row in rows], stretch)
            questions = _loss(scores_of(conductor.model, starts, padded([row[1:] for row in rows])[:, None]))
            loss = of_plans + settings.questions * questions
            of_questions = questions.item()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        torch.nn.utils.clip_grad_norm_(conductor.model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        log(
            {
                "step": step,
                "loss": of_plans.item(),
                "prompt loss": of_questions,
                "cpu_s": time.process_time(),
            }
        )


def _loss(scores: Scores) -> Tensor:
    return -scores.logps.sum() / scores.mask.sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grpo:
    """Settings of GRPO."""

    updates: int = 200
    prompts: int = 16
    """Episodes of an update."""
    texts: int = 16
    """Texts for each episode, the group."""
    lr: float = 4e-4
    """Highest learning rate; it rises for 10 updates and then falls linearly to a tenth."""
    variation: Variation = UNVARIED
    """How prompts vary."""
    entropy: float = 0.002
    """Weight of the entropy bonus at the start; it falls linearly to 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one update did."""

    number: int
    rollouts: Rollouts
    loss: float
    entropy: float
    """Mean entropy of a token, in nats."""
    flat_groups: float
    """Share of the groups whose rewards are all equal, which teach nothing."""


def train(
    conductor: TinyConductor,
    environment: Environment,
    settings: Grpo,
    *,
    seed: int,
    after: Callable[[Update], bool] = lambda _: False,
) -> None:
    """Train the model on the training split of an environment.

    Args:
        conductor: the conductor after its warm start; its weights are changed.
        environment: draws the episodes and carries out the plans.
        settings: size and number of the updates.
        seed: seed of episodes and texts.
        after: called after each update; training stops when it returns true.
    """
    optimizer = torch.optim.AdamW(
        conductor.model.parameters(), lr=settings.lr, betas=(0.9, 0.95), weight_decay=0.0
    )
    random = Random(f"grpo {seed}")
    generator = torch.Generator().manual_seed(seed)
    for number in range(settings.updates):
        left = 1 - number / settings.updates
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * min((number + 1) / 10, 0.1 + 0.9 * left)
        drawn = environment.episodes("train", settings.prompts, seed=random.getrandbits(40))
        episodes = [settings.variation.placed(episode, random) for episode in drawn]
        rollouts = roll_out(
            conductor,
            environment,
            episodes,
            texts=settings.texts,
            generator=generator,
            variation=(settings.variation, random),
        )
        scores = scores_of(conductor.model, rollouts.prompts, rollouts.tokens)
        bonus = settings.entropy * left
        loss = loss_of(scores, advantages(rollouts.values), bonus)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        torch.nn.utils.clip_grad_norm_(conductor.model.parameters(), 1.0)
        optimizer.step()
        update = Update(
            number=number,
            rollouts=rollouts,
            loss=loss.item(),
            entropy=(scores.entropy.sum() / scores.mask.sum()).item(),
            flat_groups=float((advantages(rollouts.values) == 0).all(-1).float().mean()),
        )
        if after(update):
            return


def advantages(rewards: Tensor) -> Tensor:
    """Return (reward - mean) / deviation within each group; 0 where the reward, (P, G), is NaN."""
    known = ~rewards.isnan()
    count = known.sum(-1, keepdim=True).clamp(min=1)
    mean = rewards.nan_to_num().sum(-1, keepdim=True) / count
    apart = torch.where(known, rewards - mean, 0.0)
    deviation = (apart.square().sum(-1, keepdim=True) / count).sqrt()
    return apart / (deviation + 1e-4)


def loss_of(scores: Scores, advantage: Tensor, entropy: float) -> Tensor:
    """Return the loss: the mean over texts of the mean over their tokens, less the entropy bonus."""
    ratio = (scores.logps - scores.logps.detach()).exp()  # 1, with the gradient of the log-probability
    gained = ratio * advantage[..., None] + entropy * scores.entropy
    lengths = scores.mask.sum(-1)
    return -((gained * scores.mask).sum(-1) / lengths).mean()
