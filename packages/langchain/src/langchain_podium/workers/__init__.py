"""Workers that are something of LangChain's or LangGraph's: `as_worker` makes the right one."""

from langchain_podium.workers.wrap import as_worker

__all__ = ["as_worker"]
