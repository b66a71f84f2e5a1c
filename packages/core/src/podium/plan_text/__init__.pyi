from .edits import (
    Change as Change,
)
from .edits import (
    Edit as Edit,
)
from .edits import (
    Insert as Insert,
)
from .edits import (
    Move as Move,
)
from .edits import (
    Remove as Remove,
)
from .edits import (
    edit_plan as edit_plan,
)
from .edits import (
    read_edits as read_edits,
)
from .grammar import (
    plan_grammar as plan_grammar,
)
from .parser import (
    MAX_CHARS as MAX_CHARS,
)
from .parser import (
    PlanReader as PlanReader,
)
from .parser import (
    parse_plan as parse_plan,
)
from .schema import (
    plan_schema as plan_schema,
)
from .writer import (
    KEEP as KEEP,
)
from .writer import (
    Spelling as Spelling,
)
from .writer import (
    write_plan as write_plan,
)
