"""Episodes, requests and scores as JSON."""

from dataclasses import dataclass

from pydantic import TypeAdapter

from podium_train.environments import Episode
from podium_train.rewards.scorer import Score, ScoreRequest

PATH = "/v1/scores"
HEALTH = "/health"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The body of a request."""

    environment: str
    """Name of the environment that drew the episodes."""
    version: str
    """Its version."""
    requests: tuple[ScoreRequest, ...]
    """The texts."""


_EPISODE, BATCH, SCORES = TypeAdapter(Episode), TypeAdapter(Batch), TypeAdapter(list[Score])


def episode_json(episode: Episode) -> str:
    """Return an episode as JSON, for a column of a dataset."""
    return _EPISODE.dump_json(episode).decode()


def read_episode(text: str) -> Episode:
    """Read an episode from `episode_json`.

    Raises:
        pydantic.ValidationError: the text is not an episode.
    """
    return _EPISODE.validate_json(text)
