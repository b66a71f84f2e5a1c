from .gym_questions import (
    gym_questions as gym_questions,
    gym_rows as gym_rows,
    write_questions as write_questions,
)
