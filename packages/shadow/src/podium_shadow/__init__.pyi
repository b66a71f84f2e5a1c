from .pairs import (
    Pair as Pair,
    Side as Side,
    Spent as Spent,
    SqlPairs as SqlPairs,
    Tally as Tally,
)
from .report import Report as Report, report as report
from .runner import Budget as Budget, Candidate as Candidate, ShadowRunner as ShadowRunner, failed as failed
