from .environment import (
    Environment as Environment,
    Split as Split,
)
from .episode import (
    EarlierRound as EarlierRound,
    Episode as Episode,
    PlanOutcome as PlanOutcome,
)
from .live import (
    LivePool as LivePool,
)
from .recorded import (
    Asks as Asks,
    RecordedAnswers as RecordedAnswers,
    RecordedSettings as RecordedSettings,
)
