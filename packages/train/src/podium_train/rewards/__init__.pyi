from .service import (
    DISCOUNT as DISCOUNT,
    CostWeight as CostWeight,
    RewardLimits as RewardLimits,
    RewardService as RewardService,
    Score as Score,
    ScoreRequest as ScoreRequest,
    WhyUnknown as WhyUnknown,
    episode_json as episode_json,
    read_episode as read_episode,
    with_costs as with_costs,
    with_second_rounds as with_second_rounds,
)
from .store import (
    RewardStore as RewardStore,
)
