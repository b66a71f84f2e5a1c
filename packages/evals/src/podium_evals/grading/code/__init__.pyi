from .blocks import (
    code_in as code_in,
)
from .cases import (
    decode_cases as decode_cases,
)
from .grader import (
    code_grader as code_grader,
)
from .sandbox import (
    CodeLimits as CodeLimits,
    Sandbox as Sandbox,
)
