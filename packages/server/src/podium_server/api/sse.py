"""The streams of the SDKs for MCP and A2A, which use sse-starlette."""

from sse_starlette.sse import AppStatus


def without_early_ends() -> None:
    """Let running streams end by themselves when the server stops, within `drain_seconds`."""
    AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]
