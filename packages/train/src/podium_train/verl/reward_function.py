"""The reward function that verl loads by its path. It asks a reward server.

Environment variables: `PODIUM_REWARD_URL` is the URL of the server, and `PODIUM_REWARD_TOKEN_ENV` names the
variable with its token.
"""

import os
from dataclasses import dataclass
from typing import Any

from podium_train.rewards import RewardClient, ScoreRequest, read_episode, token_of

UNKNOWN = 0.5
"""The reward of a plan whose outcome is unknown, because verl needs a number: as for a valid plan."""


@dataclass(frozen=True, slots=True)
class _Environment:
    name: str
    version: str


async def compute_score(*, solution_str: str, extra_info: dict[str, Any], **_others: Any) -> dict[str, float]:
    """Return the reward of a text.

    Args:
        solution_str: what the conductor wrote.
        extra_info: the episode, and the environment's name and version, as `write_job` wrote them.

    Returns:
        `score`, and for logs `unknown`, `valid_plan` and `steps`.
    """
    environment = _Environment(extra_info["environment"], extra_info["version"])
    token = token_of(os.environ.get("PODIUM_REWARD_TOKEN_ENV"))
    request = ScoreRequest(episode=read_episode(extra_info["episode"]), text=solution_str)
    async with RewardClient(os.environ["PODIUM_REWARD_URL"], environment, token=token) as client:
        (score,) = await client.score([request])
    return {
        "score": UNKNOWN if score.value is None else score.value,
        "unknown": float(score.value is None),
        "valid_plan": float(bool(score.workers)),
        "steps": float(len(score.workers)),
    }
