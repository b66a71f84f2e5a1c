from .event_stream import (
    events_of as events_of,
)
from .per_loop import (
    PerLoop as PerLoop,
)
from .resources import (
    ResourceGroup as ResourceGroup,
)
from .shielded import (
    shielded as shielded,
)
