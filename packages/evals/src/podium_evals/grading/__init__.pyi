from .answers import (
    Grader as Grader,
    GraderOf as GraderOf,
    final_answer as final_answer,
    final_choice as final_choice,
    grade as grade,
    grader_of as grader_of,
    tagged_answer as tagged_answer,
)
from .code import (
    CodeLimits as CodeLimits,
    code_grader as code_grader,
)
from .graders import (
    GRADERS as GRADERS,
    choice as choice,
    choose_graders as choose_graders,
    exact as exact,
    find_grader as find_grader,
    grader_version as grader_version,
    number as number,
    reasoning_gym as reasoning_gym,
)
from .mathematics import (
    math as math,
)
