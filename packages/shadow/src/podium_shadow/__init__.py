"""A candidate beside what is in production, on a sample of its traffic: running it, recording it, comparing.

It knows no framework. What runs in production, and what beside it, is the adapters' business.
"""

from podium_shadow.budget import Budget
from podium_shadow.pair import Pair, Side, Spent, Tally
from podium_shadow.pair_store import MemoryPairs, Pairs
from podium_shadow.report import Report, report
from podium_shadow.runner import Beside, Candidate
from podium_shadow.sql_pairs import SqlPairs

__all__ = [
    "Beside",
    "Budget",
    "Candidate",
    "MemoryPairs",
    "Pair",
    "Pairs",
    "Report",
    "Side",
    "Spent",
    "SqlPairs",
    "Tally",
    "report",
]

__version__ = "0.1.0"
