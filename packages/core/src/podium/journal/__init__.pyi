from .answer_cache import (
    Cache as Cache,
)
from .answer_cache import (
    MemoryCache as MemoryCache,
)
from .answer_cache import (
    answer_key as answer_key,
)
from .audit import (
    export as export,
)
from .audit import (
    read_lines as read_lines,
)
from .audit import (
    verify_lines as verify_lines,
)
from .audit import (
    verify_runs as verify_runs,
)
from .codec import (
    decode as decode,
)
from .codec import (
    encode as encode,
)
from .entry import (
    Entry as Entry,
)
from .entry import (
    Record as Record,
)
from .entry import (
    RunRow as RunRow,
)
from .entry import (
    question_of as question_of,
)
from .hash_chain import (
    ROOT as ROOT,
)
from .hash_chain import (
    Break as Break,
)
from .hash_chain import (
    link as link,
)
from .hash_chain import (
    verify as verify,
)
from .journal import (
    Journal as Journal,
)
from .journal import (
    Log as Log,
)
from .memory import (
    MemoryJournal as MemoryJournal,
)
from .sql.sql_cache import (
    SqlCache as SqlCache,
)
from .sql.sql_journal import (
    SqlJournal as SqlJournal,
)
