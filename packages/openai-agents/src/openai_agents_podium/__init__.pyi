from .approvals import approval_tools as approval_tools
from .model import ConductorModel as ConductorModel, podium_metadata as podium_metadata
from .workers import as_planner as as_planner, as_worker as as_worker

__version__: str
