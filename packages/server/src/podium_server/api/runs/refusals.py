"""Requests of the runs API that do not fit the state of the run."""

from collections.abc import Mapping

from podium_server.errors import ServerError


class NotWaiting(ServerError):
    """The run does not wait for an approval."""

    code = "not_waiting"


class NotCancellable(ServerError):
    """No server process executes the run, so it cannot be cancelled over HTTP."""

    code = "not_cancellable"


class NestedRun(ServerError):
    """The run is nested in another run, so it cannot be changed by itself."""

    code = "nested_run"
    status = 400


class NotBegun(ServerError):
    """The run failed, or was cancelled, before it began.

    Args:
        error: the `code` and the `message` of the failure.
    """

    def __init__(self, error: Mapping[str, str]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
