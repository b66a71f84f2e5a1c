"""An event loop whose time jumps to the next timer, so that waiting takes no time."""

import asyncio
import selectors


class _JumpingSelector(selectors.DefaultSelector):
    """Advances the clock where another selector would wait."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let `timeout` seconds pass at once."""
        assert timeout is not None, "nothing is left that could wake the loop"
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """A loop for code that only sleeps and computes: no network, no threads."""

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._clock.now
