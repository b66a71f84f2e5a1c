from .calls import (
    shielded as shielded,
)
from .loops import (
    LoopLocal as LoopLocal,
    PerLoop as PerLoop,
    ResourceGroup as ResourceGroup,
    connections_per_loop as connections_per_loop,
)
from .sync import (
    events_of as events_of,
    iterate as iterate,
    run_sync as run_sync,
)
