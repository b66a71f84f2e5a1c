from .prompt import (
    check_names as check_names,
    fill as fill,
    filled_object as filled_object,
    filling as filling,
    gap_of as gap_of,
    is_object as is_object,
    mark_of as mark_of,
    mentioned as mentioned,
    shown_step as shown_step,
    step_input as step_input,
    tagged as tagged,
    worker_messages as worker_messages,
)
