"""The environment: draws episodes of the world and carries out plans."""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from random import Random

from podium.errors import ConfigError
from podium.types import Plan
from podium_train.environments.environment import Environment, Split
from podium_train.environments.episode import EarlierRound, Episode, PlanOutcome
from podium_train.environments.specialists import calls, questions, templates, workers
from podium_train.environments.specialists.pools import COVERED, SHARE_WITH_GENERALIST, draw_pool

TRAINING_SIZES = (4, 5, 7)
SIZE = 5
"""Number of workers in the pools of all splits but `train`."""
_WORDINGS: dict[Split, templates.Wording] = {"validation": "training", "questions": "held_out"}


class Specialists(Environment):
    """Questions of six kinds, and pools of specialists and sometimes a generalist.

    Splits: `train`; `validation` and `mixes` have combinations of workers that no other split has; `workers`
    has workers with unseen pairs of skills; `questions` has training mixes and wordings that were never
    trained.

    Args:
        sizes: possible numbers of workers of a pool, each as probable as the others; by default
            `TRAINING_SIZES` for `train`, and `SIZE` for other splits.
        wording: the wordings of the questions; by default those of the split.
        kinds: kinds of the questions; a kind that is listed twice is twice as frequent.

    Raises:
        ConfigError: a pool of a size cannot have enough skills.
    """

    name = "specialists"
    splits = ("train", "validation", "mixes", "workers", "questions")

    def __init__(
        self,
        *,
        sizes: Sequence[int] | None = None,
        wording: templates.Wording | None = None,
        kinds: Sequence[questions.Kind] = questions.KINDS,
    ) -> None:
        if sizes is not None and (not sizes or not 3 <= min(sizes) <= max(sizes) <= 9):
            raise ConfigError(f"sizes is {sizes!r}: write numbers of workers from 3 to 9")
        self._sizes = sizes
        self._wording = wording
        self._kinds = tuple(kinds)

    @cached_property
    def version(self) -> str:  # type: ignore[override]  # computed once, read like an attribute
        """A hash of all constants of the world."""
        return world_hash()[:12]

    def episodes(self, split: Split, count: int, *, seed: int) -> Sequence[Episode]:
        """Return `count` episodes of a split; the first ones are the same for each `count`."""
        if split not in self.splits:
            raise ConfigError(
                f"the specialists have no split {split!r}: name one of {', '.join(self.splits)}"
            )
        random = Random(f"{split}/{seed}")
        return [self._episode(split, random) for _ in range(count)]

    def _episode(self, split: Split, random: Random) -> Episode:
        sizes = self._sizes or (TRAINING_SIZES if split == "train" else (SIZE,))
        pool = draw_pool(split, random.choice(sizes), random)
        wording = self._wording or _WORDINGS.get(split, "training")
        task = questions.draw_task(random.choice(self._kinds), wording, random)
        return Episode(
            question=task.question,
            cards=tuple(workers.card_of(skills, number) for number, skills in enumerate(pool)),
            workers=tuple(map(workers.worker_name, pool)),
            kind=task.kind,
            reference=task.reference(),
        )

    async def carry_out(
        self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None
    ) -> PlanOutcome:
        """Let the workers answer step by step; the answer of the last step is graded."""
        return outcome_of(episode, plan, earlier)


def outcome_of(episode: Episode, plan: Plan, earlier: EarlierRound | None = None) -> PlanOutcome:
    """Return the outcome of a plan for an episode of this world.

    A worker uses the answer of the last step that it sees. Steps of the first round come before those of the
    second.
    """
    before = earlier.outputs[-1] if earlier is not None else None
    task = questions.read_task(episode.reference)
    answers: list[str] = []
    cost = 0
    for step in plan.calls:
        skills = workers.skills_of(episode.workers[step.worker])
        seen = answers[step.access[-1]] if step.access else before if step.previous else None
        answers.append(calls.answer(task, skills, calls.operation_of(step.subtask), seen))
        cost += workers.cost_of(skills)
    score = float(answers[-1] == task.answer)
    return PlanOutcome(score=score, cost=cost, calls=len(plan.calls), outputs=tuple(answers))


def world_hash() -> str:
    """Return a hash of the world: its constants, its wordings, and some episodes with their outcomes."""
    constants = [
        [workers.IN_SKILL, workers.GENERALLY, workers.OUTSIDE, COVERED, SHARE_WITH_GENERALIST],
        [calls.VERBS, calls.UNTESTED, calls.FROM_MEMORY],
        [questions.PRICES, questions.SHELVES, questions.WORDS, questions.PROGRAMS],
        [
            templates.ARITH,
            templates.STRING,
            templates.LOOKUP,
            templates.SORT,
            templates.CODE,
            templates.MULTI,
        ],
        [sorted(map(sorted, workers.UNSEEN_PAIRS)), TRAINING_SIZES, SIZE],
    ]
    return hashlib.sha256(json.dumps(constants).encode()).hexdigest()
