from .codec import (
    decode as decode,
    encode as encode,
    read_record as read_record,
    write_record as write_record,
)
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
from .messages import (
    Completion as Completion,
    Constraint as Constraint,
    Message as Message,
    Part as Part,
    Query as Query,
    Role as Role,
    Sampling as Sampling,
    Tools as Tools,
    estimate_usage as estimate_usage,
    read_conversation as read_conversation,
    read_query as read_query,
    storable as storable,
    usage_or_estimate as usage_or_estimate,
)
from .names import check_name as check_name, nearest as nearest
from .outcome import (
    Action as Action,
    ActionEnd as ActionEnd,
    Call as Call,
    Outcome as Outcome,
    Problem as Problem,
    Proposal as Proposal,
    Round as Round,
    StepStatus as StepStatus,
    total_cost as total_cost,
    usage_note as usage_note,
)
from .plan import (
    Plan as Plan,
    PlannedBy as PlannedBy,
    Step as Step,
    literal as literal,
)
from .result import (
    Forecast as Forecast,
    Interval as Interval,
    Result as Result,
    RunStatus as RunStatus,
)
