"""Podium: a conductor for teams of models.

A planner reads a question and writes the plan: which worker does what, and which earlier
results it is shown. Podium checks the plan and runs each step as soon as its inputs exist.

The names below are what most programs need. The rest is in the folders: `podium.workers`,
`podium.planners`, `podium.policy`, `podium.journal`, `podium.types` (events, results),
`podium.execution` (retries), `podium.hosts` (for adapters), and in `podium.errors`.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
