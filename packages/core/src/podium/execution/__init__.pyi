from .context import (
    Accept as Accept,
    Host as Host,
    HostExit as HostExit,
)
from .retry import OnFailure as OnFailure, Retry as Retry
