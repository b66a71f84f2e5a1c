from .event_stream import (
    events_of as events_of,
)
from .per_loop import (
    PerLoop as PerLoop,
)
from .resources import (
    ResourceGroup as ResourceGroup,
)
from .shared_loop import (
    iterate as iterate,
    run_sync as run_sync,
)
from .shielded import (
    shielded as shielded,
)
