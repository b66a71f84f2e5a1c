from .best import (
    Best as Best,
    BestCheckpoint as BestCheckpoint,
)
from .guards import (
    Guards as Guards,
    Stop as Stop,
)
from .measures import (
    HeldOut as HeldOut,
    Sample as Sample,
    StepMeasures as StepMeasures,
    accuracy as accuracy,
    measure as measure,
    relative_entropy as relative_entropy,
)
from .rules import (
    GuardSettings as GuardSettings,
)
from .step_log import (
    STEPS as STEPS,
    StepLog as StepLog,
    read_steps as read_steps,
)
