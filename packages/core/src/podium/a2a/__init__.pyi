from .agent_worker import (
    AgentWorker as AgentWorker,
)
from .remote_agent import (
    ACTS_EXTENSION as ACTS_EXTENSION,
    RemoteAgent as RemoteAgent,
)
