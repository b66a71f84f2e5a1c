from .edits import (
    Change as Change,
    Edit as Edit,
    Insert as Insert,
    Move as Move,
    Remove as Remove,
    edit_plan as edit_plan,
    read_edits as read_edits,
)
from .grammar import (
    plan_grammar as plan_grammar,
)
from .parser import (
    MAX_CHARS as MAX_CHARS,
    PlanReader as PlanReader,
    parse_plan as parse_plan,
)
from .saved_plan import (
    read_saved_plan as read_saved_plan,
)
from .schema import (
    plan_schema as plan_schema,
)
from .writer import (
    KEEP as KEEP,
    Spelling as Spelling,
    write_plan as write_plan,
)
