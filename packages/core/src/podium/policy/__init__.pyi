from .policy import (
    ApprovalRequest as ApprovalRequest,
    Approve as Approve,
    Ask as Ask,
    Asked as Asked,
    Policy as Policy,
)
from .rules import (
    AnswerLabels as AnswerLabels,
    Flow as Flow,
    Party as Party,
    Pin as Pin,
    Rule as Rule,
    after as after,
    answer_key as answer_key,
    labels_of as labels_of,
)
