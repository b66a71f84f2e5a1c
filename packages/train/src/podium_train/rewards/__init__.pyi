from .client import (
    RewardClient as RewardClient,
)
from .cost_weight import (
    CostWeight as CostWeight,
    with_costs as with_costs,
)
from .limits import (
    RewardLimits as RewardLimits,
)
from .open import (
    open_scorer as open_scorer,
    token_of as token_of,
)
from .scorer import (
    Score as Score,
    Scorer as Scorer,
    ScoreRequest as ScoreRequest,
    WhyUnknown as WhyUnknown,
)
from .second_round import (
    DISCOUNT as DISCOUNT,
    with_second_rounds as with_second_rounds,
)
from .server import (
    reward_app as reward_app,
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
