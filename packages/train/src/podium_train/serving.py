"""Serves the rewards of a recipe over HTTP."""

from ipaddress import ip_address
from pathlib import Path

import uvicorn

from podium.errors import ConfigError
from podium_train.recipes import Recipe, environment_of
from podium_train.rewards import RewardService, RewardStore, reward_app, token_of


def serve(recipe: Recipe, folder: Path, *, host: str, port: int) -> None:
    """Serve until the process is ended.

    Args:
        recipe: the settings; `[reward] url` is for the clients.
        folder: the folder of the recipe.
        host: the address to listen on.
        port: the port.

    Raises:
        ConfigError: other machines could connect, and there is no token.
    """
    reward = recipe.reward
    token = token_of(reward.token_env)
    if not token and not _is_local(host):
        told = "other machines could spend your money"
        raise ConfigError(
            f"--host {host} without 'token_env' in [reward]: {told}; name a variable with a token"
        )
    with RewardStore(folder / recipe.folder / reward.database) as store:
        service = RewardService(
            environment_of(recipe.environment, folder),
            store,
            limits=reward.limits,
            max_steps=recipe.prompt.style.max_steps,
        )
        uvicorn.run(reward_app(service, token=token), host=host, port=port, log_level="warning")


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
