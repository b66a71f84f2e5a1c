from .config import (
    Config as Config,
    Variant as Variant,
)
from .load import (
    find_config as find_config,
    find_journal as find_journal,
    find_shared_cache as find_shared_cache,
    load_config as load_config,
    read_table as read_table,
)
from .sections import (
    RECORD as RECORD,
    AddedPlanner as AddedPlanner,
    Section as Section,
)
from .source import (
    why_unreadable as why_unreadable,
    why_unwritable as why_unwritable,
)
