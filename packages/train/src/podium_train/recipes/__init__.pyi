from .load import (
    load_recipe as load_recipe,
    shipped_launchers as shipped_launchers,
    shipped_recipes as shipped_recipes,
)
from .model import (
    base_of as base_of,
    check_dtype as check_dtype,
    check_model as check_model,
)
from .parts import (
    check_environment as check_environment,
    environment_of as environment_of,
    fingerprint_of as fingerprint_of,
    messages_of as messages_of,
)
from .recipe import (
    EnvironmentSection as EnvironmentSection,
    GrpoSection as GrpoSection,
    HeldOutSection as HeldOutSection,
    LoraSection as LoraSection,
    ModelSection as ModelSection,
    PromptSection as PromptSection,
    Recipe as Recipe,
    RewardSection as RewardSection,
    SftSection as SftSection,
    VllmSection as VllmSection,
)
