"""Samples groups of two rounds for TRL's `GRPOTrainer`, through its `rollout_func`.

As in the RL Conductor (arXiv 2512.04388), half of a group's texts are of the first round, and each text of
the other half continues one of them: it is shown the answer, and keeps it or writes another plan. All texts
of a group are compared with each other. A first text without an answer cannot be continued, so another one of
the group is continued in its place; if none has an answer, the other half are first texts too.
"""

from collections.abc import Callable, Sequence
from typing import Any

from podium_train.environments import Environment
from podium_train.recipes import Recipe, messages_of
from podium_train.rewards import Score, ScoreRequest, read_episode

EPISODE = "episode"
"""The key of the first message of a prompt with the episode as JSON. Chat templates do not read it."""
Scoring = Callable[[Sequence[ScoreRequest]], list[Score]]


class SecondRoundRollouts:
    """A `rollout_func` of TRL.

    Args:
        recipe: the settings, with `[grpo]` and `[recursion]`.
        environment: the environment.
        score: rewards texts.
    """

    def __init__(self, recipe: Recipe, environment: Environment, score: Scoring) -> None:
        assert recipe.grpo is not None
        self._recipe, self._environment, self._score = recipe, environment, score
        self._size = recipe.grpo.group_size
        self._half = self._size // 2

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any] | None]:
        """Return the tokens of a batch, whose prompts are whole groups of equal prompts.

        Returns:
            What TRL needs, and for the reward function `earlier` (for each text the first text that it
            continues) and `scored` (its score, if it is of the first round and known).
        """
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
