from .environment import (
    EarlierRound as EarlierRound,
    Environment as Environment,
    Episode as Episode,
    PlanOutcome as PlanOutcome,
    Split as Split,
)
from .episodes import (
    RecordedSettings as RecordedSettings,
)
from .live import (
    LivePool as LivePool,
)
from .recorded import (
    RecordedAnswers as RecordedAnswers,
)
