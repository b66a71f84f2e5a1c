from .reuse import (
    PaidResults as PaidResults,
    unbilled as unbilled,
)
from .state import (
    Called as Called,
    calls_of as calls_of,
    limits_of as limits_of,
    renumbered as renumbered,
    result_of as result_of,
    waiting_for as waiting_for,
)
