from .evaluate import (
    evaluate as evaluate,
)
from .generate import (
    Generator as Generator,
)
from .grpo import (
    run_grpo as run_grpo,
)
from .held_out import (
    measure_held_out as measure_held_out,
)
from .loading import (
    dtype_of as dtype_of,
)
from .merge import (
    merge_lora as merge_lora,
)
from .plan_reward import (
    PlanReward as PlanReward,
)
from .sft import (
    run_sft as run_sft,
    tokens_of as tokens_of,
)
from .small_base import (
    write_small_base as write_small_base,
)
