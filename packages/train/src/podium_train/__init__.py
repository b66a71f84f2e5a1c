"""Training of conductors: environments, rewards, guards and trainers.

The environments, the rewards and the guards need no trainer. A name is imported when it is first used.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
