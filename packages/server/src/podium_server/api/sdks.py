"""Settings of the SDKs for MCP and A2A, and of sse-starlette, which they use."""

import logging

from sse_starlette.sse import AppStatus

_LOGGERS = ("mcp", "a2a")


def tame_sdks() -> None:
    """Let running streams end by themselves when the server stops, and keep requests out of the log.

    The warnings of the SDKs quote invalid requests. A level that the application has set stays.
    """
    AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.ERROR)
