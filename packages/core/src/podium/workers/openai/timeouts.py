"""How long to wait for a server. Knows no server."""

from dataclasses import dataclass, fields

from podium.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long to wait for a server, in seconds."""

    connect: float = 10.0
    """For a connection: name lookup, TCP and TLS."""
    first_byte: float = 120.0
    """For the first byte of a stream, keep-alives included; an answer in one piece has `total`."""
    idle: float = 60.0
    """Between two pieces of a stream, keep-alives included."""
    total: float = 600.0
    """For the whole answer, from the call on."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ConfigError(
                    f"timeout {field.name} is {getattr(self, field.name)!r}: it must be above 0"
                )
