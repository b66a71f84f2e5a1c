from .render import (
    fill as fill,
    mark_of as mark_of,
    tagged as tagged,
    worker_messages as worker_messages,
)
