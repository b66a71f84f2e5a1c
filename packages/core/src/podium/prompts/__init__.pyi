from .render import (
    fill as fill,
)
from .render import (
    mark_of as mark_of,
)
from .render import (
    tagged as tagged,
)
from .render import (
    worker_messages as worker_messages,
)
