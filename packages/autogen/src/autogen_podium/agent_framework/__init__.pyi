from .agent import ConductorAgent as ConductorAgent
from .client import ConductorChatClient as ConductorChatClient
from .plan_workflow import to_workflow as to_workflow
from .wrap import as_planner as as_planner, as_worker as as_worker
