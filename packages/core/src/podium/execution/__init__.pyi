from .external_scheduler import (
    ExternalScheduler as ExternalScheduler,
)
from .external_scheduler import (
    StepStarter as StepStarter,
)
from .retry_policy import (
    Hedge as Hedge,
)
from .retry_policy import (
    Retry as Retry,
)
from .run_context import (
    OnFailure as OnFailure,
)
from .scheduler import (
    Pause as Pause,
)
