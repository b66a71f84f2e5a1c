"""A candidate beside what is in production, on a sample of its traffic: running it, recording it, comparing.

It knows no framework. What runs in production, and what beside it, is the adapters' business.
"""

from podium.shadow.beside import Beside, Candidate
from podium.shadow.budget import Budget
from podium.shadow.pair import Pair, Side, Spent, Tally
from podium.shadow.pairs import MemoryPairs, Pairs
from podium.shadow.report import Report, report
from podium.shadow.sql import SqlPairs

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
