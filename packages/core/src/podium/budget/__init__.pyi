from .ledger import Charged as Charged
from .limits import Limits as Limits, Remaining as Remaining, Spend as Spend
