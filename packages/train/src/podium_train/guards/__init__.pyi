from .best import (
    Best as Best,
    BestCheckpoint as BestCheckpoint,
)
from .checkpoints import (
    MEMORY as MEMORY,
    last_checkpoint as last_checkpoint,
    step_of as step_of,
)
from .guards import (
    Guards as Guards,
    Stop as Stop,
    ended_without_plans as ended_without_plans,
)
from .held_out import (
    HeldOut as HeldOut,
    accuracy as accuracy,
    held_out_told as held_out_told,
)
from .measures import (
    Sample as Sample,
    StepMeasures as StepMeasures,
    measure as measure,
    relative_entropy as relative_entropy,
)
from .rules import (
    PLANS_ARE_LEARNT as PLANS_ARE_LEARNT,
    GuardSettings as GuardSettings,
)
from .second_rounds import (
    SecondRounds as SecondRounds,
    second_rounds as second_rounds,
    second_told as second_told,
)
from .step_log import (
    STEPS as STEPS,
    StepLog as StepLog,
    read_steps as read_steps,
)
from .texts import (
    TEXTS as TEXTS,
    WrittenText as WrittenText,
    lines_of as lines_of,
    logged_texts as logged_texts,
    written_text as written_text,
)
