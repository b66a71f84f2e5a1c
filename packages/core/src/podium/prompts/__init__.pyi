from .render import (
    fill as fill,
    mark_of as mark_of,
    tagged as tagged,
    worker_messages as worker_messages,
)
from .subtask import (
    check_names as check_names,
    filled_object as filled_object,
    filling as filling,
    gap_of as gap_of,
    is_object as is_object,
    mentioned as mentioned,
    shown_step as shown_step,
    step_input as step_input,
)
