from .edits import (
    Change as Change,
    Edit as Edit,
    Insert as Insert,
    Move as Move,
    Remove as Remove,
    edit_plan as edit_plan,
    read_edits as read_edits,
    read_saved_plan as read_saved_plan,
)
from .parser import (
    MAX_CHARS as MAX_CHARS,
    PlanReader as PlanReader,
    parse_plan as parse_plan,
)
from .writer import (
    KEEP as KEEP,
    Spelling as Spelling,
    plan_grammar as plan_grammar,
    plan_schema as plan_schema,
    write_plan as write_plan,
)
