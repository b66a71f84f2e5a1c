from .arm import (
    Answered as Answered,
    Arm as Arm,
    Asked as Asked,
    Fold as Fold,
)
from .baselines import (
    AgainIfEmpty as AgainIfEmpty,
    Alone as Alone,
    BestSingle as BestSingle,
    EqualBudget as EqualBudget,
    KindRule as KindRule,
    MajorityVote as MajorityVote,
    MixtureOfAgents as MixtureOfAgents,
    OwnMajority as OwnMajority,
    RandomPlan as RandomPlan,
    RandomWorker as RandomWorker,
    best_of as best_of,
    kind_scores as kind_scores,
    mean_cost as mean_cost,
    mean_scores as mean_scores,
    ranked as ranked,
    vote_plan as vote_plan,
)
from .bounds import (
    ROUTING_ORACLE as ROUTING_ORACLE,
    AnyCorrect as AnyCorrect,
    RoutingOracle as RoutingOracle,
)
from .choosing import (
    ASK as ASK,
    ChoosingArm as ChoosingArm,
)
from .evaluation import (
    ArmResult as ArmResult,
    check_comparable as check_comparable,
    compare_answers as compare_answers,
    evaluate as evaluate,
)
from .folds import (
    SplitName as SplitName,
    bundled as bundled,
    folds as folds,
)
from .given import (
    GivenPlanner as GivenPlanner,
)
from .planner_arm import (
    PlannerArm as PlannerArm,
)
from .run_scores import (
    follows_an_error as follows_an_error,
    part_asked as part_asked,
)
from .side_by_side import (
    ask_all as ask_all,
)
from .tally import (
    Tallies as Tallies,
    Tally as Tally,
)
