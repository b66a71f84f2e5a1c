from .context import (
    Accept as Accept,
    ExternalScheduler as ExternalScheduler,
    HostExit as HostExit,
    Pause as Pause,
    StepStarter as StepStarter,
    outside_of_calls as outside_of_calls,
)
from .graph import WAITING as WAITING
from .retry import OnFailure as OnFailure, Retry as Retry
