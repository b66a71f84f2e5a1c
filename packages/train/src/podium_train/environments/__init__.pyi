from .environment import (
    EarlierRound as EarlierRound,
    Environment as Environment,
    Episode as Episode,
    PlanOutcome as PlanOutcome,
    Split as Split,
)
from .live import (
    LivePool as LivePool,
)
from .recorded import (
    Asks as Asks,
    RecordedAnswers as RecordedAnswers,
    RecordedSettings as RecordedSettings,
)
