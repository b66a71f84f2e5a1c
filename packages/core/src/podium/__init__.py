"""Podium: a conductor for teams of models.

A planner reads a question and writes a plan: the subtask of each worker, and the earlier
results that the worker sees. Podium checks the plan and runs each step as soon as its inputs exist.

Most programs need only the names below. The others are in `podium.workers`, `podium.planners`,
`podium.policy`, `podium.journal`, `podium.types` (events, results), `podium.execution`
(retries), `podium.hosts` (for adapters) and `podium.errors`.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
