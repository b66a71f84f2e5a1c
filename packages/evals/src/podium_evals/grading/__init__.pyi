from .answers import (
    final_answer as final_answer,
)
from .graders import (
    GRADERS as GRADERS,
    Grader as Grader,
    choice as choice,
    exact as exact,
    number as number,
)
from .reasoning_gym_grader import (
    reasoning_gym as reasoning_gym,
)
