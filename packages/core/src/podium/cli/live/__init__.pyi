from .live_state import (
    LiveState as LiveState,
)
from .live_view import (
    View as View,
)
from .notes import (
    run_notes as run_notes,
)
from .run_table import (
    RunTable as RunTable,
)
