from .arm import (
    RouterArm as RouterArm,
)
from .planner import (
    RouterPlanner as RouterPlanner,
    Strategy as Strategy,
)
from .router import (
    Router as Router,
    fit_router as fit_router,
)
