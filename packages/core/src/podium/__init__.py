"""Podium: a conductor for teams of models.

A planner reads a question and writes the plan, which worker does what and is shown which
earlier results; Podium checks it and runs its steps, each as soon as its inputs exist.

What workers and planners of your own need is in `podium.workers` and `podium.planners`;
which calls are made again in `podium.retry`; what plans may do in `podium.policy`; where
runs are recorded in `podium.journal`; what happens in a run in `podium.events`; what can
go wrong in `podium.errors`.
"""

from podium.conductor import Conductor
from podium.hosted import HostedConductor
from podium.limits import Limits
from podium.messages import Message, Sampling
from podium.parse import PlanReader, parse_plan
from podium.plan import Plan, Step
from podium.planners.chat import ChatPlanner
from podium.planners.rule import RulePlanner
from podium.result import Result
from podium.workers.chat import ChatWorker
from podium.workers.endpoint import Endpoint
from podium.workers.function import FunctionWorker
from podium.workers.pool import Pool
from podium.workers.scripted import ScriptedWorker
from podium.workers.worker import Card, Price

__all__ = [
    "Card",
    "ChatPlanner",
    "ChatWorker",
    "Conductor",
    "Endpoint",
    "FunctionWorker",
    "HostedConductor",
    "Limits",
    "Message",
    "Plan",
    "PlanReader",
    "Pool",
    "Price",
    "Result",
    "RulePlanner",
    "Sampling",
    "ScriptedWorker",
    "Step",
    "parse_plan",
]
