"""Fixtures for tests of graphs."""

import pytest
from graphs.conducted import Calls


@pytest.fixture
def calls() -> Calls:
    return Calls()
