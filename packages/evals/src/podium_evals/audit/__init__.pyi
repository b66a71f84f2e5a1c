from .auditing import (
    audit as audit,
)
from .markdown_page import (
    markdown_page as markdown_page,
)
from .prices import (
    Prices as Prices,
)
from .report import (
    Amounts as Amounts,
    Doubts as Doubts,
    Estimate as Estimate,
    ExpensiveQuery as ExpensiveQuery,
    FindingRow as FindingRow,
    Latency as Latency,
    NamedAmounts as NamedAmounts,
    Report as Report,
    Source as Source,
)
