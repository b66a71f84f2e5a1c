"""What the tiny model reads and writes: its prompt, its tokens, the texts of the warm start, and variation.

The texts of the warm start are random plans that turned out right. Each step has a line of reasoning, which
ends with the pick of a worker beside the evidence for it. Nothing here knows which plan a question needs:
right plans are found by carrying out random ones for questions of the training split.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from podium.types import Plan
from podium.workers import Card
from podium_train.environments import Episode
from tiny_conductor.world import SKILLS, Call, Workshop, evidence, outputs_of, plan_of, read

USER, ASSISTANT, END = "<|user|>", "<|assistant|>", "<|end|>"
"""Tokens of the chat template, one before each message and one after each answer."""
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message.role + '|>' + message.content }}{% if message.role == 'assistant' %}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""The chat template in the form of Hugging Face, for messages of the user and the assistant."""


def prompt_text(message: str) -> str:
    """Return a message as the model reads it, with the tokens of the chat template."""
    return f"{USER}{message}{ASSISTANT}"


SIZE = 512
PAD_ID, USER_ID, ASSISTANT_ID, END_ID = range(4)
PAD = "<|pad|>"
PLAN_PIECES = (
    r"\nmodel_id = \[",
    r'\]\nsubtasks = \["',
    r'", "',
    r'"\]\naccess_list = \[\[',
    r"\], \[",
    r"\]\]",
    r",? ?[0-9]",  # one token for each number, alone, in a sentence and in a list
    r" [/~!]",  # the marks of a row
)
"""Parts of plan text and numbers of workers, which can be one token in all worlds."""
_PIECES = (*PLAN_PIECES, r"[\n ]?[A-Za-z]+:?")
"""What can be one token: parts of plan text, numbers of workers, and words."""


def train_tokenizer(texts: int = 2000, seed: int = 0) -> Tokenizer:
    """Train the tokenizer on texts of the training split."""
    random, world = Random(seed), Workshop()
    episodes = world.episodes("train", texts, seed=seed)
    return tokenizer_of(
        [text for each in episodes for text in (world.message(each), warm_text(each, random))]
    )


def tokenizer_of(corpus: Iterable[str]) -> Tokenizer:
    """Train a tokenizer on texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("|".join(_PIECES)), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=[PAD, USER, ASSISTANT, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of texts."""
    return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]


INFORMED = 0.9
"""Share of the picks that are drawn from the numbers of the row; the others are drawn from all workers."""
TRIES = 120
"""Number of random plans that are carried out to find the right ones for a question; up to four times as many
if none is right."""
SHARPNESS = 3
"""How much more often texts are drawn from strategies that were right more often."""
Draft = tuple[Call, ...]
"""A random plan: its steps look for the skills of their acts."""


def warm_text(episode: Episode, random: Random) -> str:
    """Return a text with reasoning and a random plan for an episode."""
    return _written(episode, _drawn(episode, random))


def right_texts(episode: Episode, random: Random, count: int) -> list[str]:
    """Return texts of right ones of `TRIES` random plans; of any plans if none is right.

    The plans are grouped by their acts, and most texts are from the acts that were right most often.
    """
    task, pool = read(episode)
    drafts: list[Draft] = []
    right: list[Draft] = []
    while not right and len(drafts) < 4 * TRIES:
        more = [_drawn(episode, random) for _ in range(TRIES)]
        drafts += more
        right += [each for each in more if outputs_of(task, pool, each)[-1] == len(task.needs)]
    tried = Counter(map(_acts, drafts))
    good = Counter(map(_acts, right))
    weights = [
        (good[_acts(each)] / (tried[_acts(each)] + 1)) ** SHARPNESS / good[_acts(each)] for each in right
    ]
    chosen = random.choices(right or drafts, weights or None, k=count)
    return [_written(episode, each) for each in chosen]


def _acts(draft: Draft) -> tuple[tuple[str, bool], ...]:
    """Return what remains of a draft without its workers."""
    return tuple((act, sees) for act, _, sees in draft)


def _written(episode: Episode, draft: Draft) -> str:
    lines = [f"{act}:{evidence(episode, act)} so {worker}" for act, worker, _ in draft]
    return "\n".join((*lines, plan_lists(plan_of(draft))))


def _drawn(episode: Episode, random: Random) -> Draft:
    calls: list[Call] = []
    for at, act in enumerate(random.sample(SKILLS, random.choice((1, 2, 2)))):
        row = [int(word) for word in evidence(episode, act).split() if word.isdigit()]
        is_informed = row and random.random() < INFORMED
        worker = random.choice(row) if is_informed else random.randrange(len(episode.workers))
        calls.append((act, worker, at > 0 and random.random() < 0.75))
    return tuple(calls)


def plan_lists(plan: Plan) -> str:
    """Return a plan as the three lists that the tiny model writes."""
    workers = ", ".join(str(step.worker) for step in plan.calls)
    subtasks = ", ".join(f'"{step.subtask}"' for step in plan.calls)
    access = ", ".join(str(list(step.access)) for step in plan.calls)
    return f"model_id = [{workers}]\nsubtasks = [{subtasks}]\naccess_list = [{access}]"


NOBODY: Final = ""
"""The name of the worker in an empty place, which has no skill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """How much prompts vary in training. The workers and the graders see the whole question."""

    left_out: float = 0.0
    """Share of the words that are left out of the questions, so that no wording is learned by heart."""
    stretch: float = 1.5
    """All positions of a prompt and its texts are multiplied by a random factor from 1 / `stretch` to
    `stretch`, so that no distance is learned by heart and pools of other sizes can be read. After randomised
    positions (arXiv 2305.16843), which are random for each token."""

    places: int = 7
    """The workers of a pool are put in random ones of this many places, so that no number is in each pool.
    Places without a worker are in no row, and a plan that uses one is wrong. 0 changes nothing."""

    def placed(self, episode: Episode, random: Random) -> Episode:
        """Return the episode with its workers in other places, some of which are empty."""
        if self.places <= len(episode.workers):
            return episode
        taken = dict(
            zip(sorted(random.sample(range(self.places), len(episode.workers))), episode.workers, strict=True)
        )
        return replace(
            episode,
            workers=tuple(taken.get(place, NOBODY) for place in range(self.places)),
            cards=tuple(Card(name=f"worker-{place}") for place in range(self.places)),
        )

    def thinned(self, episode: Episode, random: Random) -> Episode:
        """Return the episode with a question that lacks some of its words."""
        if not self.left_out:
            return episode
        words = [word for word in episode.question.split() if random.random() >= self.left_out]
        return replace(episode, question=" ".join(words))

    def factors(self, episodes: Sequence[Episode], random: Random) -> Tensor:
        """Return a factor of the positions for each episode."""
        return torch.tensor([self.stretch ** random.uniform(-1, 1) for _ in episodes])


UNVARIED: Final = Variation(left_out=0.0, stretch=1.0, places=0)
"""Changes nothing."""
