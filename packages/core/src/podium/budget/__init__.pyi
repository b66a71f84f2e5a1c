from .ledger import (
    Ledger as Ledger,
)
from .ledger import (
    Remaining as Remaining,
)
from .ledger import (
    Reservation as Reservation,
)
from .ledger import (
    Spend as Spend,
)
from .limits import (
    Limits as Limits,
)
