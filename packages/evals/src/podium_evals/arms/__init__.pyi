from .arm import (
    Answered as Answered,
    Arm as Arm,
    Asked as Asked,
    Fold as Fold,
    SplitName as SplitName,
    folds as folds,
)
from .baselines import (
    BestSingle as BestSingle,
    KindRule as KindRule,
    best_of as best_of,
    kind_scores as kind_scores,
    mean_scores as mean_scores,
    ranked as ranked,
    vote_plan as vote_plan,
)
from .evaluation import (
    ArmResult as ArmResult,
    evaluate as evaluate,
)
from .planners import (
    PlannerArm as PlannerArm,
)
from .run_scores import (
    ASK as ASK,
)
