from .cost_weight import (
    CostWeight as CostWeight,
    with_costs as with_costs,
)
from .limits import (
    RewardLimits as RewardLimits,
)
from .scorer import (
    Score as Score,
    ScoreRequest as ScoreRequest,
    WhyUnknown as WhyUnknown,
)
from .second_round import (
    DISCOUNT as DISCOUNT,
    with_second_rounds as with_second_rounds,
)
from .service import (
    RewardService as RewardService,
)
from .store import (
    RewardStore as RewardStore,
)
from .wire import (
    episode_json as episode_json,
    read_episode as read_episode,
)
