from .planner import (
    RouterPlanner as RouterPlanner,
)
from .router import (
    Router as Router,
    RouterFacts as RouterFacts,
    fit_router as fit_router,
)
