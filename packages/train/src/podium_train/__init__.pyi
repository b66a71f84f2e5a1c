from .environments.environment import (
    EarlierRound as EarlierRound,
    Environment as Environment,
    Episode as Episode,
    PlanOutcome as PlanOutcome,
)
from .environments.episodes import (
    RecordedSettings as RecordedSettings,
)
from .environments.live import (
    LivePool as LivePool,
)
from .environments.recorded import (
    RecordedAnswers as RecordedAnswers,
)
from .guards import (
    Guards as Guards,
    GuardSettings as GuardSettings,
    HeldOut as HeldOut,
    Sample as Sample,
    StepMeasures as StepMeasures,
    Stop as Stop,
    entropy_of as entropy_of,
    held_out_told as held_out_told,
    measure as measure,
)
from .prompts import (
    MAX_STEPS as MAX_STEPS,
    PromptStyle as PromptStyle,
    fingerprint as fingerprint,
    messages as messages,
    plan_request as plan_request,
    second_messages as second_messages,
)
from .recipe import (
    Recipe as Recipe,
    load_recipe as load_recipe,
    shipped_launchers as shipped_launchers,
    shipped_recipes as shipped_recipes,
)
from .rewards import (
    Reward as Reward,
    Score as Score,
    reward_of as reward_of,
)
from .run_files import (
    STEPS as STEPS,
    BestCheckpoint as BestCheckpoint,
    StepLog as StepLog,
)
from .runs import (
    share_files as share_files,
)
