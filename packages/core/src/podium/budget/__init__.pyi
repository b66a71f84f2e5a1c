from .charging import charge as charge
from .ledger import Ledger as Ledger, Reservation as Reservation
from .limits import Limits as Limits
from .spend import NOTHING as NOTHING, Remaining as Remaining, Spend as Spend
