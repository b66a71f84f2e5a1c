"""A conductor that several tests use."""

import pytest
from tiny_conductor.model import TinyConductor, TinyConfig
from tiny_conductor.training import WarmUp, warm_up


@pytest.fixture(scope="session")
def small() -> TinyConductor:
    """A small conductor that has learned the form of plans, and no more."""
    conductor = TinyConductor.new(0, TinyConfig(width=32, heads=2, feed_forward=48, layers=2))
    warm_up(conductor, WarmUp(steps=80, prompts=16, texts=8, lr=1e-2), seed=0)
    return conductor
