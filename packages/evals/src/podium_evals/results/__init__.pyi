from .named_arms import (
    ARMS as ARMS,
    BASE as BASE,
    named_arms as named_arms,
)
from .pools import (
    POOLS as POOLS,
    read_pool as read_pool,
)
from .report import (
    PricedWorker as PricedWorker,
    Report as Report,
    Setting as Setting,
    compare_arms as compare_arms,
    every_sample as every_sample,
    fingerprint as fingerprint,
)
from .table import (
    draw_report as draw_report,
)
