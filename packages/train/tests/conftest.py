"""Tests that need torch are collected where it is installed: `make test-trainers`."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["tiny", "trl"]
