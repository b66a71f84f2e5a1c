from .chat import ChatPlanner as ChatPlanner, Show as Show
from .planner import (
    CachedPlanner as CachedPlanner,
    FixedPlanner as FixedPlanner,
    Planner as Planner,
    PlanRequest as PlanRequest,
    PlanText as PlanText,
    Turn as Turn,
)
from .rule import DirectPlanner as DirectPlanner, RulePlanner as RulePlanner
from .turn import TurnPlanner as TurnPlanner
