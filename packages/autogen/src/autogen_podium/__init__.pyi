from .agent import ConductorAgent as ConductorAgent
from .client import ConductorChatCompletionClient as ConductorChatCompletionClient
from .team import ConductorTeam as ConductorTeam

__version__: str
