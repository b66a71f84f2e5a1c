from .intervals import (
    Difference as Difference,
    Interval as Interval,
    Resampling as Resampling,
    Unit as Unit,
    compare as compare,
    halves as halves,
    interval_of_mean as interval_of_mean,
    intervals_of_means as intervals_of_means,
)
