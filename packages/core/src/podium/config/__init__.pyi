from .added_planner import (
    AddedPlanner as AddedPlanner,
)
from .complaints import (
    complaints_of as complaints_of,
)
from .config import (
    Config as Config,
)
from .files import (
    why_unreadable as why_unreadable,
    why_unwritable as why_unwritable,
)
from .load import (
    find_config as find_config,
    find_journal as find_journal,
    find_shared_cache as find_shared_cache,
    load_config as load_config,
    read_table as read_table,
)
from .tables import (
    AsTable as AsTable,
    Section as Section,
)
from .toml_lines import (
    lines_of as lines_of,
)
from .variant import (
    Variant as Variant,
)
