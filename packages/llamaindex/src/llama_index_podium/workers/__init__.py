"""Workers that are something of LlamaIndex's: `as_worker` makes the right one."""

from llama_index_podium.workers.wrap import as_worker

__all__ = ["as_worker"]
