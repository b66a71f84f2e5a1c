"""Agents, crews, LLMs and tools of CrewAI's as workers."""

from crewai_podium.workers.wrap import as_worker

__all__ = ["as_worker"]
