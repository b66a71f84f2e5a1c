from .gym_questions import (
    gym_questions as gym_questions,
)
