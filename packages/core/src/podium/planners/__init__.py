"""Planners: the seam, what passes over it, and the planners beyond the usual two."""

from podium.planners.cached import CachedPlanner
from podium.planners.direct import DirectPlanner
from podium.planners.fixed import FixedPlanner
from podium.planners.planner import Planner, PlanRequest, PlanText, Turn

__all__ = ["CachedPlanner", "DirectPlanner", "FixedPlanner", "PlanRequest", "PlanText", "Planner", "Turn"]
