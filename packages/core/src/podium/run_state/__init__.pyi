from .reuse import (
    PaidResults as PaidResults,
    unbilled as unbilled,
)
from .state import (
    CallState as CallState,
    RunState as RunState,
    fold as fold,
    renumbered as renumbered,
)
