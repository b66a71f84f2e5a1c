from .evaluation import (
    Generator as Generator,
    evaluate as evaluate,
    measure_held_out as measure_held_out,
)
from .gguf_file import (
    write_gguf as write_gguf,
)
from .grpo import (
    run_grpo as run_grpo,
)
from .models import (
    dtype_of as dtype_of,
    merge_lora as merge_lora,
    write_gguf_base as write_gguf_base,
    write_small_base as write_small_base,
)
from .rewards import (
    PlanReward as PlanReward,
)
from .sft import (
    run_sft as run_sft,
    tokens_of as tokens_of,
)
