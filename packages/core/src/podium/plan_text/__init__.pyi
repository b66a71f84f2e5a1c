from .edits import (
    Change as Change,
    Move as Move,
    Remove as Remove,
    edit_plan as edit_plan,
    read_edits as read_edits,
)
from .parser import PlanReader as PlanReader, parse_plan as parse_plan
from .saved import Parameter as Parameter, SavedPlan as SavedPlan
from .writer import Spelling as Spelling, write_plan as write_plan
