from .cassette import (
    Cassette as Cassette,
    PlanScores as PlanScores,
    plan_table as plan_table,
    run_plans as run_plans,
    told_row as told_row,
)
from .files import (
    GrowingFile as GrowingFile,
    QuestionRow as QuestionRow,
    read_questions as read_questions,
)
from .recorder import (
    Recorder as Recorder,
    Summary as Summary,
)
