"""Workers that are AutoGen's: agents, teams, tools, model clients."""

from autogen_podium.workers.agent import AgentWorker
from autogen_podium.workers.model import ModelWorker
from autogen_podium.workers.tool import ToolWorker
from autogen_podium.workers.wrap import as_planner, as_worker

__all__ = ["AgentWorker", "ModelWorker", "ToolWorker", "as_planner", "as_worker"]
