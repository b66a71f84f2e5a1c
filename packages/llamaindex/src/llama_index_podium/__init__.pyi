from .llm import ConductorLLM as ConductorLLM
from .query_engine import ConductorQueryEngine as ConductorQueryEngine
from .retriever import ConductorRetriever as ConductorRetriever
from .workers import as_worker as as_worker

__version__: str
