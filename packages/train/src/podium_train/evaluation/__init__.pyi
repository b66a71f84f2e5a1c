from .arm import (
    Complete as Complete,
    PlanArm as PlanArm,
    conductor_arm as conductor_arm,
    plan_arm as plan_arm,
    planner_arm as planner_arm,
)
from .card_arms import (
    card_arms as card_arms,
)
from .comparison import (
    ArmScores as ArmScores,
    Evaluation as Evaluation,
    compare_arms as compare_arms,
)
from .evaluating import (
    Trial as Trial,
    evaluate as evaluate,
)
from .plans import (
    write_plans as write_plans,
)
from .recorded_arms import (
    best_card_arm as best_card_arm,
    reasoned_arm as reasoned_arm,
    recorded_arms as recorded_arms,
)
from .table import (
    as_json as as_json,
    as_table as as_table,
)
