from .bills import (
    Called as Called,
    calls_of as calls_of,
)
from .paid_results import (
    PaidResults as PaidResults,
)
from .rebuild import (
    limits_of as limits_of,
    renumbered as renumbered,
    result_of as result_of,
    waiting_for as waiting_for,
)
from .reuse import (
    unbilled as unbilled,
)
