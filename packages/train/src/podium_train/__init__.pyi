from .environments import (
    Environment as Environment,
    Episode as Episode,
    PlanOutcome as PlanOutcome,
)
from .reward import (
    Reward as Reward,
    reward_of as reward_of,
)
