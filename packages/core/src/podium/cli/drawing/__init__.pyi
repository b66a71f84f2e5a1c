from .forecast_table import (
    forecast as forecast,
)
from .rich_console import (
    console as console,
    markdown as markdown,
    width as width,
)
from .tables import (
    plan_table as plan_table,
)
