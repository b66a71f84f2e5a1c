from .baselines import (
    BASELINES as BASELINES,
    expected_score as expected_score,
)
from .environment import (
    SIZE as SIZE,
    TRAINING_SIZES as TRAINING_SIZES,
    Specialists as Specialists,
    outcome_of as outcome_of,
)
from .questions import (
    KINDS as KINDS,
    Kind as Kind,
)
from .workers import (
    GENERAL as GENERAL,
    SKILLS as SKILLS,
    Skills as Skills,
    skills_of as skills_of,
)
