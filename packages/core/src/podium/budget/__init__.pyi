from .ledger import (
    UNREPORTED as UNREPORTED,
    Charged as Charged,
    Ledger as Ledger,
    Reservation as Reservation,
    charge as charge,
    charged_by as charged_by,
)
from .limits import NOTHING as NOTHING, Limits as Limits, Remaining as Remaining, Spend as Spend
