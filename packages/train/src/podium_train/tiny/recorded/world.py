"""The warm start on recorded answers: random plans whose picks are read from the rows of the sheet.

A text has a line for each part with the letter of a kind and the picks, and then the plan:

    1 B 1
    2 C 0
    model_id = [1, 0, 4]
    ...

The letter is mostly the most similar kind. The picks are drawn: each worker of the kind's row is half as
probable as the one before it. A single question has one to three picks, and with several a vote; a part of a
bundle has one. Of some random plans, those with better answers are drawn more often. Nothing here says how
many workers to ask, and when to leave the order of a row; that is left to GRPO.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import anyio
from tokenizers import Tokenizer

from podium.types import Plan
from podium_train.environments import Episode, PlanOutcome
from podium_train.tiny.recorded.mixed import QuestionsAndBundles
from podium_train.tiny.recorded.sheet import LETTERS, Sheet
from podium_train.tiny.tokens import PLAN_PIECES, tokenizer_of
from podium_train.tiny.warm_start import plan_lists

WARM_START = 1
"""Increased when the texts of the warm start change."""
SIZE = 384
"""Maximum number of tokens."""
TRIES = 4
"""Number of random plans that are carried out for an episode."""
NEAREST = 0.9
"""Share of the lines with the most similar kind; the others have a random one."""
_FEWEST = 0.05
"""Weight of a plan whose answer is wrong; a right one has 1 more."""
_PIECES = (
    r"Answer the question\.",
    r"Answer part ",
    r"Join the answers\.",
    r":[0-9]",
    *PLAN_PIECES,
    r"\n[0-9A-C](?= )",
    r"[\n ]?[A-Za-z]+",
)


@dataclass(frozen=True)
class RecordedWorld:
    """Recorded answers."""

    environment: QuestionsAndBundles

    def message(self, episode: Episode) -> str:
        """Return the message that the tiny model reads."""
        return self._sheet(episode).text

    def texts(self, episodes: Sequence[Episode], random: Random, count: int) -> Sequence[str]:
        """Return the better ones of random plans for each episode."""
        sheets = [self._sheet(episode) for episode in episodes]
        drawn = [
            [self._drawn(episode, sheet, random) for _ in range(TRIES)]
            for episode, sheet in zip(episodes, sheets, strict=True)
        ]

        async def outcomes() -> list[list[PlanOutcome | None]]:
            return [
                [await self.environment.carry_out(episode, plan) for _, plan in drafts]
                for episode, drafts in zip(episodes, drawn, strict=True)
            ]

        texts = []
        for drafts, found in zip(drawn, anyio.run(outcomes), strict=True):
            weights = [_FEWEST + (outcome.score if outcome else 0.0) for outcome in found]
            texts += [text for text, _ in random.choices(drafts, weights, k=count)]
        return texts

    def new_tokenizer(self, texts: int = 1000, seed: int = 0) -> Tokenizer:
        """Train the tokenizer on messages and texts of the training split."""
        random = Random(seed)
        corpus = []
        for episode in self.environment.episodes("train", texts, seed=seed):
            sheet = self._sheet(episode)
            corpus += [sheet.text, self._drawn(episode, sheet, random)[0]]
        return tokenizer_of(corpus, pieces=_PIECES, size=SIZE)

    def _sheet(self, episode: Episode) -> Sheet:
        return Sheet.of(self.environment.of(episode), episode)

    def _drawn(self, episode: Episode, sheet: Sheet, random: Random) -> tuple[str, Plan]:
        """Return a random text and its plan."""
        lines, chosen = [], []
        for number, likeness in enumerate(sheet.likeness, 1):
            row = likeness.order[0] if random.random() < NEAREST else random.choice(likeness.order)
            picks = _picks(sheet.rates[row].order, 1 if sheet.is_bundle else random.randint(1, 3), random)
            lines.append(f"{number} {LETTERS[row]} {' '.join(map(str, picks))}")
            chosen.append(picks)
        plan = self.environment.of(episode).plan_by_part(episode, chosen)
        return "\n".join((*lines, plan_lists(plan))), plan


def _picks(order: Sequence[int], count: int, random: Random) -> list[int]:
    """Draw different workers, each half as probable as the one before it in the row."""
    left, picks = list(order), []
    for _ in range(min(count, len(left))):
        weights = [0.5**rank for rank in range(len(left))]
        picks.append(left.pop(random.choices(range(len(left)), weights)[0]))
    return picks
