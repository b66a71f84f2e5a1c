from .node import conductor_node as conductor_node, create_conductor_agent as create_conductor_agent
