"""Podium for the OpenAI Agents SDK: a conductor as the model of an agent.

`agents.Runner` runs an `agents.Agent` whose model is a `ConductorModel` like any other agent. Agents,
function tools and models of the SDK can be workers. A name is imported when it is first used.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
