from .bootstrap import (
    Interval as Interval,
    Resampling as Resampling,
    Unit as Unit,
    interval_of_mean as interval_of_mean,
    intervals_of_means as intervals_of_means,
)
from .comparison import (
    Difference as Difference,
    compare as compare,
)
from .forecast import (
    Expected as Expected,
    total as total,
)
from .splits import (
    cross_fit as cross_fit,
    halves as halves,
    leave_kinds_out as leave_kinds_out,
)
