"""Episodes as JSON."""

from pydantic import TypeAdapter

from podium_train.environments import Episode

_EPISODE = TypeAdapter(Episode)


def episode_json(episode: Episode) -> str:
    """Return an episode as JSON, for a column of a dataset."""
    return _EPISODE.dump_json(episode).decode()


def read_episode(text: str) -> Episode:
    """Read an episode from `episode_json`.

    Raises:
        pydantic.ValidationError: the text is not an episode.
    """
    return _EPISODE.validate_json(text)
