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
from .figure import (
    draw_curve as draw_curve,
)
from .fitting import (
    fit_router as fit_router,
)
from .found_kinds import (
    find_kinds as find_kinds,
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
    measure_tiers as measure_tiers,
)
from .training import (
    Gain as Gain,
    Training as Training,
    TrainingReport as TrainingReport,
    WorkerReport as WorkerReport,
    expected_calibration_error as expected_calibration_error,
    train_router as train_router,
)
