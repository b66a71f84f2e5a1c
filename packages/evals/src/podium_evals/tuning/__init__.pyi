from .kinds import (
    FoundKind as FoundKind,
    measured_file as measured_file,
)
from .planner import (
    TunedPlanner as TunedPlanner,
)
from .tuning import (
    Tuning as Tuning,
    Way as Way,
    Wish as Wish,
    tune as tune,
)
from .written import (
    Settings as Settings,
    write_settings as write_settings,
)
