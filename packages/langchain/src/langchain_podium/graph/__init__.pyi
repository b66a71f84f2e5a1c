from .agent import create_conductor_agent as create_conductor_agent
from .node import conductor_node as conductor_node
from .static_graph import to_langgraph as to_langgraph
