from .agent import ConductorAgent as ConductorAgent
from .client import ConductorChatCompletionClient as ConductorChatCompletionClient
from .team import ConductorTeam as ConductorTeam
from .workers.wrap import as_planner as as_planner, as_worker as as_worker

__version__: str
