"""Workers that are CrewAI objects: agents, crews, LLMs and tools."""
