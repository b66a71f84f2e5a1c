from .comparison import (
    PricedWorker as PricedWorker,
    Report as Report,
    Setting as Setting,
    compare_arms as compare_arms,
)
