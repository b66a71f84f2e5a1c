"""Timeouts for a server."""

from dataclasses import dataclass, fields

from podium.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts for a server, in seconds.

    Raises:
        ConfigError: a timeout is not above 0.
    """

    connect: float = 10.0
    """Until a connection is open: name lookup, TCP and TLS."""
    first_byte: float = 120.0
    """Until the first byte of a streamed response, including keep-alives. A whole response has `total`."""
    idle: float = 60.0
    """Between two pieces of a streamed response, including keep-alives."""
    total: float = 600.0
    """From the call to the end of the response."""

    def __post_init__(self) -> None:
        for timeout in fields(self):
            if not getattr(self, timeout.name) > 0:
                raise ConfigError(
                    f"timeout {timeout.name} is {getattr(self, timeout.name)!r}: it must be above 0"
                )
