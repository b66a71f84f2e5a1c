"""Podium for AutoGen: a conductor as an agent, as a team, as a model client.

A conductor has the methods of AutoGen's objects: run a task, stream messages, save its state. Agents, teams,
tools and model clients can be its workers. A name is imported when it is first used. For Microsoft Agent
Framework use `autogen_podium.agent_framework`, which requires the extra `agent-framework`.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
