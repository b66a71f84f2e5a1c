"""What the tests of graphs share."""

import pytest
from graphs.conducted import Calls


@pytest.fixture
def calls() -> Calls:
    """Return who was called, nobody yet."""
    return Calls()
