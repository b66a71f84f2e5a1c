from .answers import (
    RecordedAnswers as RecordedAnswers,
    parts_of as parts_of,
)
from .executor import (
    StepEnd as StepEnd,
    run_steps as run_steps,
)
from .partition import (
    Partition as Partition,
)
from .settings import (
    Asks as Asks,
    RecordedSettings as RecordedSettings,
)
from .subtasks import (
    asked_alone as asked_alone,
    plan_by_part as plan_by_part,
)
