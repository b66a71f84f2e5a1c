from .arm import (
    RouterArm as RouterArm,
)
from .choice import (
    choose as choose,
)
from .curve import (
    CurvePoint as CurvePoint,
    Goal as Goal,
    quality_curve as quality_curve,
)
from .fitting import (
    fit_router as fit_router,
)
from .planner import (
    RouterPlanner as RouterPlanner,
    Strategy as Strategy,
)
from .router import (
    Router as Router,
    RouterFacts as RouterFacts,
)
from .tiers import (
    OneWorker as OneWorker,
    Tier as Tier,
    Tiers as Tiers,
    fit_for as fit_for,
    measure_tiers as measure_tiers,
)
