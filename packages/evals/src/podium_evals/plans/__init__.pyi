from .arm import (
    RecordedPlansArm as RecordedPlansArm,
)
from .plan_file import (
    NoPlan as NoPlan,
    PlanFile as PlanFile,
    Plans as Plans,
    PlansAbout as PlansAbout,
    RecordedPlan as RecordedPlan,
    read_plans as read_plans,
)
from .plan_recorder import (
    PlanRecorder as PlanRecorder,
    PlanSummary as PlanSummary,
)
