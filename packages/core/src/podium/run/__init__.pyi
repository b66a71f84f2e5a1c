from .acceptance import (
    Accept as Accept,
)
from .approval import (
    PAUSED as PAUSED,
)
from .approval import (
    REFUSED as REFUSED,
)
from .listeners import (
    Listener as Listener,
)
from .options import (
    RunOptions as RunOptions,
)
