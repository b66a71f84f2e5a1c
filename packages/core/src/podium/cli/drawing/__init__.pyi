from .run_table import RunTable as RunTable, View as View
from .tables import (
    console as console,
    forecast as forecast,
    markdown as markdown,
    plan_table as plan_table,
    width as width,
)
