from .context import (
    Accept as Accept,
    ExternalScheduler as ExternalScheduler,
    HostExit as HostExit,
    Pause as Pause,
    StepStarter as StepStarter,
)
from .retry import OnFailure as OnFailure, Retry as Retry
