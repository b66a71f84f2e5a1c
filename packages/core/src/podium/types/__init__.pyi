from .events import (
    AnswerDelta as AnswerDelta,
)
from .events import (
    ApprovalAsked as ApprovalAsked,
)
from .events import (
    ApprovalGiven as ApprovalGiven,
)
from .events import (
    AttemptFailed as AttemptFailed,
)
from .events import (
    Event as Event,
)
from .events import (
    PlanDelta as PlanDelta,
)
from .events import (
    PlannerEnded as PlannerEnded,
)
from .events import (
    PlannerStarted as PlannerStarted,
)
from .events import (
    PlanReady as PlanReady,
)
from .events import (
    RoundStarted as RoundStarted,
)
from .events import (
    RunEnded as RunEnded,
)
from .events import (
    RunResumed as RunResumed,
)
from .events import (
    RunStarted as RunStarted,
)
from .events import (
    RunStopped as RunStopped,
)
from .events import (
    StepDelta as StepDelta,
)
from .events import (
    StepEnded as StepEnded,
)
from .events import (
    StepStarted as StepStarted,
)
from .forecast import (
    Forecast as Forecast,
)
from .forecast import (
    Interval as Interval,
)
from .messages import (
    Completion as Completion,
)
from .messages import (
    Constraint as Constraint,
)
from .messages import (
    Message as Message,
)
from .messages import (
    Part as Part,
)
from .messages import (
    Query as Query,
)
from .messages import (
    Role as Role,
)
from .messages import (
    Sampling as Sampling,
)
from .messages import (
    Tools as Tools,
)
from .messages import (
    estimate_usage as estimate_usage,
)
from .messages import (
    read_query as read_query,
)
from .messages import (
    read_turns as read_turns,
)
from .messages import (
    storable as storable,
)
from .outcome import (
    Call as Call,
)
from .outcome import (
    Outcome as Outcome,
)
from .outcome import (
    Problem as Problem,
)
from .outcome import (
    Proposal as Proposal,
)
from .outcome import (
    Round as Round,
)
from .outcome import (
    StepStatus as StepStatus,
)
from .outcome import (
    total_cost as total_cost,
)
from .plan import (
    Plan as Plan,
)
from .plan import (
    Step as Step,
)
from .result import (
    Result as Result,
)
from .result import (
    RunStatus as RunStatus,
)
