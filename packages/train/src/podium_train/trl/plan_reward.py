"""The reward function for the trainers of TRL."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from podium_train.guards import Sample
from podium_train.processes import processes_of_training
from podium_train.recipes import Recipe, environment_of
from podium_train.rewards import (
    RewardService,
    RewardStore,
    Score,
    ScoreRequest,
    read_episode,
    with_costs,
    with_second_rounds,
)


class PlanReward:
    """Rewards the texts of a batch, whose plans it executes concurrently.

    A text with an unknown outcome gets `None`, which TRL leaves out of the group. An instance can be pickled;
    it opens its scorer when it is first called.

    Args:
        recipe: the settings.
        folder: the folder of the recipe, at which relative paths start.
    """

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self._recipe = recipe
        self._folder = folder
        self.heard: Callable[[Sequence[Sample]], None] | None = None
        """Is given the samples of each batch."""
        self._scorer: RewardService | None = None
        self.__name__ = "plan_reward"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to this process."""
        return {**self.__dict__, "_scorer": None, "heard": None}

    @property
    def scorer(self) -> RewardService:
        """The scorer, opened when it is first needed."""
        if self._scorer is None:
            reward = self._recipe.reward
            self._scorer = RewardService(
                environment_of(self._recipe.environment, self._folder),
                RewardStore(self._folder / self._recipe.folder / reward.database),
                limits=reward.limits.shared_by(processes_of_training()),
                max_steps=self._recipe.prompt.style.max_steps,
            )
        return self._scorer

    async def __call__(
        self,
        *,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        episode: Sequence[str],
        earlier: Sequence[str | None] | None = None,
        scored: Sequence[Score | None] | None = None,
        trainer_state: Any = None,
        **_others: Any,
    ) -> list[float | None]:
        """Return the reward of each completion.

        Args:
            completions: the texts after the prefill, as messages.
            completion_ids: their tokens.
            episode: the episode of each text, as JSON.
            earlier: for each text of a second round, the text that it continues.
            scored: the scores that are known.
            trainer_state: the state of TRL's trainer, for the step.
        """
        episodes = [read_episode(text) for text in episode]
        prefill = self._recipe.prompt.style.prefill
        texts = [prefill + messages[-1]["content"] for messages in completions]
        earlier = earlier or [None] * len(texts)
        known = list(scored or [None] * len(texts))
        requests = [
            ScoreRequest(episode=each, text=text, earlier=before)
            for each, text, before, score in zip(episodes, texts, earlier, known, strict=True)
            if score is None
        ]
        found = iter(await self.scorer.score(requests))
        scores = [score or next(found) for score in known]
        grpo = self._recipe.grpo
        assert grpo is not None
        if self.heard is not None:
            self.heard(
                [
                    Sample(
                        episode=each,
                        score=score,
                        length=len(ids),
                        cut=len(ids) >= grpo.max_tokens,
                        text=text,
                        earlier=before,
                    )
                    for each, score, ids, text, before in zip(
                        episodes, scores, completion_ids, texts, earlier, strict=True
                    )
                ]
            )
        step = 0 if trainer_state is None else int(trainer_state.global_step)
        rewards = _by_group(episode, scores, self._recipe.reward.cost.at(step))
        recursion = self._recipe.recursion
        if recursion is None:
            return rewards
        return [
            reward
            for group in _groups(episode)
            for reward in with_second_rounds(
                texts[group], earlier[group], rewards[group], discount=recursion.discount
            )
        ]


def _groups(episodes: Sequence[str]) -> Iterator[slice]:
    """Yield the place of each group; its texts follow each other."""
    start = 0
    for _, group in groupby(episodes):
        size = len(list(group))
        yield slice(start, start + size)
        start += size


def _by_group(episodes: Sequence[str], scores: Sequence[Score], weight: float) -> list[float | None]:
    """Return the rewards; plans are compared by cost within a round of a group."""
    rewards: list[float | None] = []
    rounds = zip(episodes, (score.second_round for score in scores), scores, strict=True)
    for _, group in groupby(rounds, key=lambda each: each[:2]):
        rewards += with_costs([score for *_, score in group], weight)
    return rewards
