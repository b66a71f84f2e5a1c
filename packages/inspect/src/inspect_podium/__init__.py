"""Podium for Inspect (`inspect-ai`): conductors as models or solvers, recorded answers as tasks.

Inspect finds the model `podium/NAME`, the solver `inspect_podium/conductor`, and the tasks
`inspect_podium/questions` and `inspect_podium/recording`, by entry points.
A name is imported when it is first used.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
