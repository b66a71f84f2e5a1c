from .parts import (
    forecast_compare as forecast_compare,
    forecast_eval as forecast_eval,
    forecast_grpo as forecast_grpo,
    forecast_sft as forecast_sft,
)
from .rest import (
    REMEASURED as REMEASURED,
    rest_of_grpo as rest_of_grpo,
    rest_of_sft as rest_of_sft,
)
