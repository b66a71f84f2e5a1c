from .exporting import (
    export_conductor as export_conductor,
)
from .facts import (
    FACTS_FILE as FACTS_FILE,
    ConductorFacts as ConductorFacts,
    read_facts as read_facts,
)
from .planner import (
    ConductorPlanner as ConductorPlanner,
)
from .section import (
    ConductorSection as ConductorSection,
)
