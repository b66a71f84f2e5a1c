from .live_state import (
    LiveState as LiveState,
)
from .live_tree import (
    TreeRenderer as TreeRenderer,
)
from .live_view import (
    View as View,
)
