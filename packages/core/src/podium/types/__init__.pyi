from .events import (
    ActionDecided as ActionDecided,
    AnswerDelta as AnswerDelta,
    ApprovalAsked as ApprovalAsked,
    ApprovalGiven as ApprovalGiven,
    AttemptFailed as AttemptFailed,
    Event as Event,
    NestedRunEnded as NestedRunEnded,
    PlanDelta as PlanDelta,
    PlannerEnded as PlannerEnded,
    PlannerStarted as PlannerStarted,
    PlanReady as PlanReady,
    Question as Question,
    RoundStarted as RoundStarted,
    RunEnded as RunEnded,
    RunResumed as RunResumed,
    RunStarted as RunStarted,
    RunStopped as RunStopped,
    StepDelta as StepDelta,
    StepEnded as StepEnded,
    StepStarted as StepStarted,
    WorkerRunEnded as WorkerRunEnded,
)
from .forecast import Forecast as Forecast
from .messages import (
    Completion as Completion,
    Constraint as Constraint,
    Message as Message,
    Part as Part,
    Query as Query,
    Sampling as Sampling,
    Tools as Tools,
)
from .outcome import (
    Action as Action,
    Call as Call,
    Outcome as Outcome,
    Problem as Problem,
    Proposal as Proposal,
    Round as Round,
    StepStatus as StepStatus,
)
from .plan import Plan as Plan, PlannedBy as PlannedBy
from .references import Condition as Condition, literal as literal
from .result import (
    Result as Result,
    RunStatus as RunStatus,
    steps_behind as steps_behind,
)
from .steps import Block as Block, Step as Step
