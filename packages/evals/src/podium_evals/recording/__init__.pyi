from .cassette import (
    Cassette as Cassette,
)
from .forecast import (
    Forecast as Forecast,
)
from .growing_file import (
    GrowingFile as GrowingFile,
)
from .question_rows import (
    QuestionRow as QuestionRow,
    read_questions as read_questions,
)
from .recorder import (
    Recorder as Recorder,
    Summary as Summary,
)
from .runs import (
    JournalSummary as JournalSummary,
    record_runs as record_runs,
)
from .step_runs import (
    PlanScores as PlanScores,
    plan_table as plan_table,
    run_plans as run_plans,
    told_row as told_row,
)
