from .files import (
    MEMORY as MEMORY,
    STEPS as STEPS,
    TEXTS as TEXTS,
    Best as Best,
    BestCheckpoint as BestCheckpoint,
    StepLog as StepLog,
    WrittenText as WrittenText,
    last_checkpoint as last_checkpoint,
    lines_of as lines_of,
    logged_texts as logged_texts,
    read_steps as read_steps,
    step_of as step_of,
    written_text as written_text,
)
from .guards import (
    PLANS_ARE_LEARNT as PLANS_ARE_LEARNT,
    Guards as Guards,
    GuardSettings as GuardSettings,
    Stop as Stop,
    ended_without_plans as ended_without_plans,
)
from .measures import (
    HeldOut as HeldOut,
    Sample as Sample,
    SecondRounds as SecondRounds,
    StepMeasures as StepMeasures,
    accuracy as accuracy,
    held_out_told as held_out_told,
    measure as measure,
    relative_entropy as relative_entropy,
    second_rounds as second_rounds,
    second_told as second_told,
)
