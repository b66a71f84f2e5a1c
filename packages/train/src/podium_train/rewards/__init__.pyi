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
from .scorer import (
    Score as Score,
    Scorer as Scorer,
    ScoreRequest as ScoreRequest,
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
