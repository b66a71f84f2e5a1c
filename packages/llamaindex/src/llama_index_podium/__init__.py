"""Podium for LlamaIndex: a conductor as a query engine, a retriever, an LLM, a workflow and tools.

Events are in `llama_index_podium.events`. A name is imported when it is first used.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
