from .cached import (
    CachedPlanner as CachedPlanner,
)
from .chat import (
    ChatPlanner as ChatPlanner,
)
from .direct import (
    DirectPlanner as DirectPlanner,
)
from .fixed import (
    FixedPlanner as FixedPlanner,
)
from .kind_matcher import (
    by_similarity as by_similarity,
    kind_of as kind_of,
    measured_kinds as measured_kinds,
    rate_on as rate_on,
)
from .planner import (
    Planner as Planner,
    PlanRequest as PlanRequest,
    PlanText as PlanText,
    Turn as Turn,
)
from .planner_prompt import (
    Show as Show,
    round_feedback as round_feedback,
)
from .rule import (
    RulePlanner as RulePlanner,
)
