from .audit import (
    Anchor as Anchor,
    anchors_of as anchors_of,
    export as export,
    read_anchors as read_anchors,
    read_lines as read_lines,
    verify_each as verify_each,
    verify_lines as verify_lines,
    verify_runs as verify_runs,
)
from .cache import (
    Cache as Cache,
    MemoryCache as MemoryCache,
    SqlCache as SqlCache,
    StoredAnswer as StoredAnswer,
    answer_key as answer_key,
)
from .journal import (
    LAST_CHARACTER as LAST_CHARACTER,
    ROOT as ROOT,
    Break as Break,
    Entry as Entry,
    Head as Head,
    Journal as Journal,
    Log as Log,
    Record as Record,
    RunRow as RunRow,
    Wanted as Wanted,
    add as add,
    head_of as head_of,
    link as link,
    question_of as question_of,
    shortened as shortened,
    verify as verify,
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
from .sql.journal import (
    SqlJournal as SqlJournal,
)
from .sql.lease import (
    has_ended as has_ended,
    new_holder as new_holder,
)
from .sql.tables import (
    Location as Location,
    PostgresOnly as PostgresOnly,
    Schema as Schema,
    SqlTables as SqlTables,
)
