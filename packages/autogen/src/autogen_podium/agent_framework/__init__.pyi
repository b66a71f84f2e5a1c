from .agent import ConductorAgent as ConductorAgent
from .client import ConductorChatClient as ConductorChatClient
from .wrap import as_planner as as_planner, as_worker as as_worker
