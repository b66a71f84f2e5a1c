from .agent import ConductorAgent as ConductorAgent
from .client import ConductorChatCompletionClient as ConductorChatCompletionClient
from .graph_flow import to_graph_flow as to_graph_flow
from .team import ConductorTeam as ConductorTeam

__version__: str
