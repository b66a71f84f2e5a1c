from .environments import (
    EarlierRound as EarlierRound,
    Environment as Environment,
    Episode as Episode,
    LivePool as LivePool,
    PlanOutcome as PlanOutcome,
    RecordedAnswers as RecordedAnswers,
    RecordedSettings as RecordedSettings,
)
from .pools import (
    PoolDraw as PoolDraw,
    disguised as disguised,
    measured_rates as measured_rates,
)
from .prompts import (
    MAX_STEPS as MAX_STEPS,
    PromptStyle as PromptStyle,
    fingerprint as fingerprint,
    messages as messages,
    plan_request as plan_request,
    second_messages as second_messages,
)
from .reward import (
    Reward as Reward,
    reward_of as reward_of,
)
from .sizes import (
    Needs as Needs,
    Shape as Shape,
    needs_of as needs_of,
    shape_of as shape_of,
)
