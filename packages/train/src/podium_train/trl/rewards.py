"""The reward function for the trainers of TRL, and groups of two rounds for its `GRPOTrainer`.

As in the RL Conductor (arXiv 2512.04388), half of a group's texts are of the first round, and each text of
the other half continues one of them: it is shown the answer, and keeps it or writes another plan. All texts
of a group are compared with each other. A first text without an answer cannot be continued, so another one of
the group is continued in its place; if none has an answer, the other half are first texts too.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from podium_train.environments import Environment
from podium_train.guards import Sample
from podium_train.recipe import Recipe, environment_of, messages_of
from podium_train.rewards import (
    RewardService,
    Score,
    ScoreRequest,
    read_episode,
    with_costs,
    with_second_rounds,
)
from podium_train.runs import processes_of_training
from podium_train.store import RewardStore


class PlanReward:
    """Rewards the texts of a batch, whose plans it executes concurrently.

    A text with an unknown outcome gets `None`, which TRL leaves out of the group. An instance can be pickled;
    it opens its scorer when it is first called.
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
        """Return the reward of each completion."""
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


EPISODE = "episode"
"""The key of the first message of a prompt with the episode as JSON. Chat templates do not read it."""
Scoring = Callable[[Sequence[ScoreRequest]], list[Score]]


class SecondRoundRollouts:
    """A `rollout_func` of TRL."""

    def __init__(self, recipe: Recipe, environment: Environment, score: Scoring) -> None:
        assert recipe.grpo is not None
        self._recipe, self._environment, self._score = recipe, environment, score
        self._size = recipe.grpo.group_size
        self._half = self._size // 2

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any] | None]:
        """Return the tokens of a batch, whose prompts are whole groups of equal prompts."""
        groups = [prompts[start : start + self._size] for start in range(0, len(prompts), self._size)]
        firsts = [prompt for group in groups for prompt in group[: self._half]]
        ids, made, logprobs = _sample(trainer, firsts, self._half)
        prefill = self._recipe.prompt.style.prefill
        written = trainer.processing_class.batch_decode(made, skip_special_tokens=True)
        texts = [prefill + text for text in written]
        episodes = [read_episode(prompt[0][EPISODE]) for prompt in firsts]
        requests = [
            ScoreRequest(episode=episode, text=text) for episode, text in zip(episodes, texts, strict=True)
        ]
        scores = self._score(requests)
        nexts: list[Any] = []
        continued: list[str | None] = []
        for start in range(0, len(firsts), self._half):
            for at in _continued(scores[start : start + self._half]):
                if at is None:
                    nexts.append(firsts[start])
                    continued.append(None)
                    continue
                earlier = (texts[start + at], scores[start + at].answer)
                found = messages_of(self._recipe, self._environment, episodes[start + at], earlier)
                nexts.append([{"role": message.role, "content": message.text} for message in found])
                continued.append(earlier[0])
        more_ids, more, more_logprobs = _sample(trainer, nexts, 1)
        none: list[Any] = [None] * len(firsts)
        return {
            "prompt_ids": self._joined(ids, more_ids),
            "completion_ids": self._joined(made, more),
            "logprobs": None
            if logprobs is None or more_logprobs is None
            else self._joined(logprobs, more_logprobs),
            "earlier": self._joined(none, continued),
            "scored": self._joined(scores, none),
        }

    def _joined(self, first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
        """Return the halves of each group after each other."""
        half = self._half
        return [
            each
            for start in range(0, len(first), half)
            for each in (*first[start : start + half], *second[start : start + half])
        ]


def _continued(scores: Sequence[Score]) -> list[int | None]:
    """Return for each text of the second half which text of the first half it continues."""
    able = [at for at, score in enumerate(scores) if score.answer]
    if not able:
        return [None] * len(scores)
    return [at if scores[at].answer else able[at % len(able)] for at in range(len(scores))]


def _sample(trainer: Any, prompts: list[Any], repeats: int) -> tuple[list[Any], list[Any], list[Any] | None]:
    """Return the tokens of prompts and texts, and the log probabilities if vLLM tells them.

    The two methods are private; the bounds of the extra `trl` allow only releases that have them.
    """
    ids, _, _ = trainer._tokenize_prompts(prompts)  # noqa: SLF001 - see above
    made, logprobs = trainer._generate_single_turn(ids, None, {}, repeats)  # noqa: SLF001 - see above
    return ids, made, logprobs
