from .agent import (
    ACTS_EXTENSION as ACTS_EXTENSION,
    AgentWorker as AgentWorker,
    RemoteAgent as RemoteAgent,
)
