from .external_scheduler import (
    ExternalScheduler as ExternalScheduler,
    HostExit as HostExit,
    Pause as Pause,
    StepStarter as StepStarter,
)
from .retry_policy import OnFailure as OnFailure, Retry as Retry
from .run_context import Accept as Accept, outside_of_calls as outside_of_calls
from .step_state import WAITING as WAITING
