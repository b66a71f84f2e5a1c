from .answers import (
    AnswerLabels as AnswerLabels,
    answer_key as answer_key,
)
from .approval_request import (
    ApprovalRequest as ApprovalRequest,
    Approve as Approve,
    Asked as Asked,
)
from .label_flow import (
    Flow as Flow,
    Party as Party,
    after as after,
    labels_of as labels_of,
)
from .policy import (
    Ask as Ask,
    Policy as Policy,
)
from .rules import (
    Pin as Pin,
    Rule as Rule,
)
