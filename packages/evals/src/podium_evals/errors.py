"""The errors of this package.

    PodiumError
    ├── ArmUnfit           an arm cannot be fitted, or cannot work with a pool
    ├── RouterInvalid      a file is not a router, or a recording is not enough to fit one
    ├── OriginUnavailable  a public recording cannot be downloaded
    ├── ChecksumMismatch   a downloaded file is not the file that is listed
    ├── ConfigError
    │   └── RecordingInvalid   a file is not a recording, or a row of it cannot be read
    └── WorkerError
        └── WorkerRefused
            └── Unrecorded     a recorded worker is asked a question that nobody recorded

The other classes are in `podium.errors`.
"""

from podium.errors import ConfigError, PodiumError, WorkerRefused
from podium.usage import Usage


class ArmUnfit(PodiumError):
    """An arm cannot be fitted on so few answers, or cannot work with the pool."""

    code = "arm_unfit"


class RecordingInvalid(ConfigError):
    """A file is not a recording, or a row of it cannot be read."""

    code = "recording_invalid"


class OriginUnavailable(PodiumError):
    """A public recording cannot be downloaded; what has arrived of it is kept."""

    code = "origin_unavailable"


class ChecksumMismatch(PodiumError):
    """A downloaded file is not the one that is listed: the origin was changed, or somebody is between."""

    code = "checksum_mismatch"


class RouterInvalid(PodiumError):
    """A file is not a router, or a recording is not enough to fit one."""

    code = "router_invalid"


class Unrecorded(WorkerRefused):
    """A recorded worker is asked something to which no answer was recorded.

    The answer is never guessed. The step fails with this code, is not retried, and has no fallback.
    """

    code = "unrecorded"

    def __init__(self, message: str) -> None:
        super().__init__(message, usage=Usage(), cost=0.0)
