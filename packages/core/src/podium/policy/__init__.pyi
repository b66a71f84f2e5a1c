from .approval_request import (
    ApprovalRequest as ApprovalRequest,
)
from .approval_request import (
    Approve as Approve,
)
from .approval_request import (
    Asked as Asked,
)
from .label_flow import (
    Flow as Flow,
)
from .label_flow import (
    Party as Party,
)
from .label_flow import (
    after as after,
)
from .label_flow import (
    labels_of as labels_of,
)
from .policy import (
    Policy as Policy,
)
from .rules import (
    Pin as Pin,
)
from .rules import (
    Rule as Rule,
)
