"""Workers that are AutoGen objects: agents, teams, tools, model clients."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
