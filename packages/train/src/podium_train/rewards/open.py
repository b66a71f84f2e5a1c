"""Opens the scorer that a run's settings name."""

import os
from pathlib import Path

from podium.errors import ConfigError
from podium_train.environments import Environment
from podium_train.prompts import MAX_STEPS
from podium_train.rewards.client import RewardClient
from podium_train.rewards.limits import RewardLimits
from podium_train.rewards.scorer import Scorer
from podium_train.rewards.service import RewardService
from podium_train.rewards.store import RewardStore


def open_scorer(
    environment: Environment,
    database: Path,
    *,
    limits: RewardLimits | None = None,
    max_steps: int = MAX_STEPS,
    url: str | None = None,
    token_env: str | None = None,
) -> Scorer:
    """Return a service in this process, or with `url` the client of a server.

    Args:
        environment: executes the plans, or only names the episodes' environment for a server.
        database: the database of outcomes and spending, for a service in this process.
        limits: the limits, as above.
        max_steps: maximum number of steps of a valid plan, as above.
        url: URL of the server.
        token_env: environment variable with the token of the server.

    Raises:
        ConfigError: the database cannot be used, or the variable is empty.
    """
    if url is None:
        return RewardService(environment, RewardStore(database), limits=limits, max_steps=max_steps)
    return RewardClient(url, environment, token=token_of(token_env))


def token_of(variable: str | None) -> str:
    """Return the token in an environment variable; empty without a variable.

    Raises:
        ConfigError: the variable is empty or not set.
    """
    if variable is None:
        return ""
    if not (token := os.environ.get(variable, "")):
        raise ConfigError(f"'token_env' in [reward] names {variable}, which is not set: set it to the token")
    return token
