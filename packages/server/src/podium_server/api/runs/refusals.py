"""Requests of the runs API that do not fit the state of the run."""

from podium.errors import PodiumError


class NotWaiting(PodiumError):
    """The run does not wait for an approval."""

    code = "not_waiting"


class NotInBackground(PodiumError):
    """The run belongs to a request that is open, so only its client can cancel it."""

    code = "not_in_background"


class NestedRun(PodiumError):
    """The run is nested in another run, so it cannot be changed by itself."""

    code = "nested_run"
