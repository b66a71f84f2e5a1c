from .budget import Budget as Budget
from .comparison import Report as Report, report as report
from .pair import Pair as Pair, Side as Side, Spent as Spent, Tally as Tally
from .pair_store import MemoryPairs as MemoryPairs, Pairs as Pairs
from .runner import Candidate as Candidate, ShadowRunner as ShadowRunner, failed as failed
from .sql_pairs import SqlPairs as SqlPairs
