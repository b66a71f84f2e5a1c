from .queries import (
    Prices as Prices,
)
from .report import (
    Amounts as Amounts,
    ExpensiveQuery as ExpensiveQuery,
    FindingRow as FindingRow,
    Latency as Latency,
    NamedAmounts as NamedAmounts,
    Report as Report,
    Source as Source,
    audit as audit,
)
