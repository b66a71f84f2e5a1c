from .answers import (
    RecordedAnswers as RecordedAnswers,
    parts_of as parts_of,
)
from .episodes import (
    Asks as Asks,
    Partition as Partition,
    RecordedSettings as RecordedSettings,
)
from .outcomes import (
    StepEnd as StepEnd,
    asked_alone as asked_alone,
    plan_by_part as plan_by_part,
    run_steps as run_steps,
)
