"""The config of a server without a `podium.toml`: workers that need no model, key or network."""

from pathlib import Path

from podium.config import Config, load_config


def demo_config() -> Config:
    """Return the config of the offline demo."""
    return load_config(Path(__file__).parent / "demo" / "podium.toml")
