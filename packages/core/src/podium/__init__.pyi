from .budget import Limits as Limits
from .conductor import Conductor as Conductor
from .config import load_plan as load_plan
from .execution import Retry as Retry
from .plan_text import PlanReader as PlanReader, parse_plan as parse_plan
from .planners import ChatPlanner as ChatPlanner, RulePlanner as RulePlanner
from .types import Message as Message, Plan as Plan, Result as Result, Sampling as Sampling, Step as Step
from .workers import (
    Card as Card,
    ChatWorker as ChatWorker,
    Endpoint as Endpoint,
    Pool as Pool,
    Price as Price,
    ScriptedWorker as ScriptedWorker,
)
from .workers.simple import FunctionWorker as FunctionWorker

__version__: str
