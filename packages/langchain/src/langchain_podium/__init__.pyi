from .chat_models import ChatPodium as ChatPodium
from .graph import conductor_node as conductor_node, create_conductor_agent as create_conductor_agent
from .runnable import ConductorRunnable as ConductorRunnable
from .workers import as_planner as as_planner, as_worker as as_worker

__version__: str
