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
from .planner import (
    Planner as Planner,
    PlanRequest as PlanRequest,
    PlanText as PlanText,
    Turn as Turn,
)
from .planner_prompt import (
    Show as Show,
)
from .rule import (
    RulePlanner as RulePlanner,
)
