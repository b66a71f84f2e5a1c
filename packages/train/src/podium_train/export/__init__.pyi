from .exporting import (
    export_conductor as export_conductor,
)
from .planner import (
    FACTS_FILE as FACTS_FILE,
    ConductorFacts as ConductorFacts,
    ConductorPlanner as ConductorPlanner,
    read_facts as read_facts,
)
from .section import (
    ConductorSection as ConductorSection,
)
