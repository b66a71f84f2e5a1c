"""The client of a reward service over HTTP."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import anyio
import httpx2

from podium.errors import ConfigError
from podium_train.environments import Environment
from podium_train.rewards.scorer import Score, Scorer, ScoreRequest
from podium_train.rewards.wire import BATCH, PATH, SCORES, Batch

_UNREACHED = Score(value=None, why_unknown="server", cost=None)


class RewardClient(Scorer):
    """Rewards texts by a server (`reward_app`). Use it in an `async with` block.

    If the server cannot be reached, or fails, the texts have no reward, and are not punished.

    Args:
        url: the URL of the server, for example `http://127.0.0.1:8321`.
        environment: the environment of the episodes; only its name and version are used.
        token: the bearer token; empty for none.
        timeout_s: maximum time of a batch, in seconds.
        attempts: how often a batch is sent, with pauses of 1, 2, 4 … seconds between.
    """

    def __init__(
        self,
        url: str,
        environment: Environment,
        *,
        token: str = "",
        timeout_s: float = 1800,
        attempts: int = 4,
    ) -> None:
        self._environment = environment
        self._attempts = attempts
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = httpx2.Timeout(timeout_s, connect=min(10.0, timeout_s))
        self._http = httpx2.AsyncClient(base_url=url, headers=headers, timeout=timeout, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def score(self, requests: Sequence[ScoreRequest]) -> list[Score]:
        """Return the reward of each text, in the same order.

        Raises:
            ConfigError: the server refused the batch, for example because it has another environment.
        """
        batch = Batch(
            environment=self._environment.name, version=self._environment.version, requests=tuple(requests)
        )
        body = BATCH.dump_json(batch)
        for attempt in range(self._attempts):
            if attempt:
                await anyio.sleep(2 ** (attempt - 1))
            try:
                response = await self._http.post(PATH, content=body)
            except httpx2.TransportError:
                continue
            if response.status_code < 400:
                return SCORES.validate_json(response.content)
            if response.status_code < 500:
                raise ConfigError(f"the server of rewards refused the batch: {response.text:.500}")
        return [_UNREACHED] * len(requests)
