from .environments.environment import (
    EarlierRound as EarlierRound,
    Environment as Environment,
    Episode as Episode,
    PlanOutcome as PlanOutcome,
)
from .environments.episodes import (
    PoolDraw as PoolDraw,
    RecordedSettings as RecordedSettings,
    disguised as disguised,
    measured_rates as measured_rates,
)
from .environments.live import (
    LivePool as LivePool,
)
from .environments.recorded import (
    RecordedAnswers as RecordedAnswers,
)
from .prompts import (
    MAX_STEPS as MAX_STEPS,
    PromptStyle as PromptStyle,
    fingerprint as fingerprint,
    messages as messages,
    plan_request as plan_request,
    second_messages as second_messages,
)
from .rewards import (
    Reward as Reward,
    reward_of as reward_of,
)
from .sizes import (
    Needs as Needs,
    Shape as Shape,
    needs_of as needs_of,
    shape_of as shape_of,
)
