"""What all tests share."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, which the HTTP transport needs."""
    return "asyncio"
