from .events import ConductorRunEvent as ConductorRunEvent
from .llm import ConductorLLM as ConductorLLM
from .manager import ConductorManager as ConductorManager
from .workers.wrap import as_planner as as_planner, as_worker as as_worker

__version__: str
