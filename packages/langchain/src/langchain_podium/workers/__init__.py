"""Workers that are LangChain or LangGraph objects; `as_worker` creates them."""

from langchain_podium.workers.wrap import as_planner, as_worker

__all__ = ["as_planner", "as_worker"]
