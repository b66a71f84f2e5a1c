"""The errors of this package.

    PodiumError
    ├── ArmUnfit           an arm cannot be fitted, or does not support a pool
    ├── RouterInvalid      a file is not a router, or a recording has too few answers to fit one
    ├── ConfigError
    │   └── RecordingInvalid a file is not a recording, or one of its rows cannot be read
    └── WorkerError
        └── WorkerRefused
            └── Unrecorded     a recorded worker has no answer to a question

The other classes are in `podium.errors`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from podium.errors import ConfigError, PodiumError, WorkerRefused


class ArmUnfit(PodiumError):
    """There are too few answers to fit an arm, or the arm does not support the pool."""

    code = "arm_unfit"


class RecordingInvalid(ConfigError):
    """A file is not a recording, or one of its rows cannot be read."""

    code = "recording_invalid"


class RouterInvalid(PodiumError):
    """A file is not a router, or a recording has too few answers to fit one."""

    code = "router_invalid"


class Unrecorded(WorkerRefused):
    """A recorded worker or a cassette has no answer to a call.

    No answer is guessed: the step fails with this code, without a retry and without a fallback.
    """

    code = "unrecorded"


@contextmanager
def first_failure() -> Iterator[None]:
    """Raise the first exception of an exception group; the other tasks were cancelled because of it."""
    try:
        yield
    except BaseExceptionGroup as group:
        failure: BaseException = group
        while isinstance(failure, BaseExceptionGroup):
            failure = failure.exceptions[0]
        raise failure from failure.__cause__
