from .config import (
    Config as Config,
)
from .load import (
    find_config as find_config,
)
from .load import (
    find_journal as find_journal,
)
from .load import (
    find_shared_cache as find_shared_cache,
)
from .load import (
    load_config as load_config,
)
