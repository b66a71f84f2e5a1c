"""The errors of this package.

    PodiumError
    └── NothingMeasured   no outcome is known, so there are no figures

The other classes are in `podium.errors` and `podium_evals.errors`.
"""

from podium.errors import PodiumError


class NothingMeasured(PodiumError):
    """A planner wrote no plan, or no outcome of a plan is known, so there are no figures."""

    code = "nothing_measured"
