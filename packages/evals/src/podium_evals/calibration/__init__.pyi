from .arm import (
    CalibratedArm as CalibratedArm,
    CalibratedRouterArm as CalibratedRouterArm,
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
