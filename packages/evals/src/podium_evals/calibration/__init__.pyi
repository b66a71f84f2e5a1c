from .arm import (
    CalibratedArm as CalibratedArm,
    CalibratedRouterArm as CalibratedRouterArm,
)
from .calibrate import (
    Calibration as Calibration,
    Calibrator as Calibrator,
)
from .drift import (
    Drift as Drift,
    find_drift as find_drift,
)
from .graded_runs import (
    RecentAnswers as RecentAnswers,
    RunScore as RunScore,
    read_scores as read_scores,
    recent_answers as recent_answers,
)
from .probe_curve import (
    ProbeCurve as ProbeCurve,
    ProbePoint as ProbePoint,
    probe_curve as probe_curve,
)
from .rates import (
    PRIOR_WEIGHT as PRIOR_WEIGHT,
    Tally as Tally,
    estimates as estimates,
    intervals as intervals,
    priors as priors,
)
from .shift import (
    with_measured as with_measured,
)
