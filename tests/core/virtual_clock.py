"""The virtual clock, as anyio is told to run on it."""

from typing import Any

from podium_evals.clock import VirtualClock

OPTIONS: dict[str, Any] = {"loop_factory": VirtualClock}
"""For `anyio.run(…, backend_options=OPTIONS)`."""

BACKEND = ("asyncio", OPTIONS)
"""What an `anyio_backend` fixture returns to have a module's tests run on it."""
