from .answer_cache import (
    Cache as Cache,
    MemoryCache as MemoryCache,
    StoredAnswer as StoredAnswer,
    answer_key as answer_key,
)
from .audit import (
    anchors_of as anchors_of,
    verify_each as verify_each,
    verify_runs as verify_runs,
)
from .codec import (
    decode as decode,
    encode as encode,
    read_record as read_record,
    write_record as write_record,
)
from .entry import (
    LAST_CHARACTER as LAST_CHARACTER,
    Entry as Entry,
    Record as Record,
    RunRow as RunRow,
    question_of as question_of,
    shortened as shortened,
)
from .hash_chain import (
    ROOT as ROOT,
    Break as Break,
    Head as Head,
    add as add,
    head_of as head_of,
    link as link,
    verify as verify,
)
from .journal import (
    Journal as Journal,
    Log as Log,
)
from .lines import (
    export as export,
    read_lines as read_lines,
    verify_lines as verify_lines,
)
from .memory import (
    MemoryJournal as MemoryJournal,
)
from .sql.changes import (
    Follower as Follower,
)
from .sql.database import (
    Transaction as Transaction,
    marks as marks,
)
from .sql.lease import (
    has_ended as has_ended,
    new_holder as new_holder,
)
from .sql.schema import (
    PostgresOnly as PostgresOnly,
    Schema as Schema,
)
from .sql.sql_cache import (
    SqlCache as SqlCache,
)
from .sql.sql_journal import (
    SqlJournal as SqlJournal,
)
from .sql.sql_tables import (
    SqlTables as SqlTables,
)
from .sql.urls import (
    Location as Location,
)
from .verification import (
    Anchor as Anchor,
    Verifier as Verifier,
    read_anchors as read_anchors,
)
