"""Workers that are LlamaIndex objects; `as_worker` creates them."""

from llama_index_podium.workers.wrap import as_worker

__all__ = ["as_worker"]
