from .charging import UNREPORTED as UNREPORTED, Charged as Charged, charge as charge, charged_by as charged_by
from .ledger import Ledger as Ledger, Reservation as Reservation
from .limits import Limits as Limits
from .spend import NOTHING as NOTHING, Remaining as Remaining, Spend as Spend
