from .answers import (
    final_answer as final_answer,
    tagged_answer as tagged_answer,
)
from .choices import (
    final_choice as final_choice,
)
from .choosing import (
    choose_graders as choose_graders,
)
from .grader import (
    Grader as Grader,
    GraderOf as GraderOf,
    grade as grade,
    grader_of as grader_of,
)
from .grader_version import (
    grader_version as grader_version,
)
from .graders import (
    GRADERS as GRADERS,
    choice as choice,
    exact as exact,
    number as number,
    reasoning_gym as reasoning_gym,
)
from .mathematics import (
    math as math,
)
from .named_grader import (
    find_grader as find_grader,
)
