from .added import (
    AddedPlanner as AddedPlanner,
)
from .config import (
    Config as Config,
    Variant as Variant,
)
from .files import (
    lines_of as lines_of,
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
from .sections import (
    AsTable as AsTable,
    Section as Section,
)
from .source import (
    complaints_of as complaints_of,
)
