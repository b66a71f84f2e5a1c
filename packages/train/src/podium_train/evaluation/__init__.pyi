from .arms import (
    PlanArm as PlanArm,
    best_card_arm as best_card_arm,
    card_arms as card_arms,
    plan_arm as plan_arm,
    planner_arm as planner_arm,
    reasoned_arm as reasoned_arm,
    recorded_arms as recorded_arms,
)
from .comparison import (
    ArmScores as ArmScores,
    Evaluation as Evaluation,
    Trial as Trial,
    as_table as as_table,
    compare_arms as compare_arms,
    evaluate as evaluate,
)
