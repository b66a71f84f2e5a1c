from .agent_worker import (
    AgentWorker as AgentWorker,
)
from .remote_agent import (
    RemoteAgent as RemoteAgent,
)
