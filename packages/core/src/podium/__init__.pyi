from .budget import Limits as Limits
from .conductor import Conductor as Conductor
from .execution import Retry as Retry
from .hosted import HostedConductor as HostedConductor
from .plan_text import PlanReader as PlanReader
from .plan_text import parse_plan as parse_plan
from .planners import ChatPlanner as ChatPlanner
from .planners import RulePlanner as RulePlanner
from .types import Message as Message
from .types import Plan as Plan
from .types import Result as Result
from .types import Sampling as Sampling
from .types import Step as Step
from .workers import (
    Card as Card,
)
from .workers import (
    ChatWorker as ChatWorker,
)
from .workers import (
    Endpoint as Endpoint,
)
from .workers import (
    FunctionWorker as FunctionWorker,
)
from .workers import (
    Pool as Pool,
)
from .workers import (
    Price as Price,
)
from .workers import (
    ScriptedWorker as ScriptedWorker,
)
