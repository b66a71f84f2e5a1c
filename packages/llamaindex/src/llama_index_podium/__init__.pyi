from .conductor import FaceOptions as FaceOptions, as_planner as as_planner
from .llm import ConductorLLM as ConductorLLM
from .query import (
    ConductorQueryEngine as ConductorQueryEngine,
    ConductorRetriever as ConductorRetriever,
    ConductorToolSpec as ConductorToolSpec,
)
from .workers.wrap import as_worker as as_worker
from .workflow import ConductorWorkflow as ConductorWorkflow

__version__: str
