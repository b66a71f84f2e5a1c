"""`podium.toml`: finding it, checking it, and making a conductor of it."""

from podium.config.config import Config
from podium.config.load import find_config, find_journal, find_shared_cache, load_config

__all__ = ["Config", "find_config", "find_journal", "find_shared_cache", "load_config"]
