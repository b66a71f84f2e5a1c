from .event_stream import (
    events_of as events_of,
)
from .http_pools import (
    connections_per_loop as connections_per_loop,
)
from .per_loop import (
    LoopLocal as LoopLocal,
    PerLoop as PerLoop,
)
from .resources import (
    ResourceGroup as ResourceGroup,
)
from .shield import (
    shielded as shielded,
)
from .sync import (
    iterate as iterate,
    run_sync as run_sync,
)
