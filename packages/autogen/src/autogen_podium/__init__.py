"""Podium for AutoGen: a conductor as an agent, as a team, as a model client.

AutoGen's names are kept: a conductor is run with a task, streams messages, saves its state and
is dumped as a component. Agents, teams, tools and model clients can be its workers. A name is
imported when it is first used. For Microsoft Agent Framework there is
`autogen_podium.agent_framework`, which needs the extra of that name.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
