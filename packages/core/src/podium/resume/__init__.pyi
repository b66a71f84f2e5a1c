from .bills import (
    unbilled as unbilled,
)
from .paid_results import (
    PaidResults as PaidResults,
)
from .rebuild import (
    renumbered as renumbered,
)
from .rebuild import (
    result_of as result_of,
)
from .rebuild import (
    waiting_for as waiting_for,
)
from .tool_continuation import (
    KEPT as KEPT,
)
from .tool_continuation import (
    recall_turn as recall_turn,
)
from .tool_continuation import (
    turn_of as turn_of,
)
