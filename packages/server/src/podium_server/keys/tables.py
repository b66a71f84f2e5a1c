"""The tables of keys, in the database of the journal.

Costs are whole billionths of a dollar, so that sums are exact. Days are in UTC, as in 2026-11-30.
"""

from podium.journal import Schema

SCHEMA = Schema(
    "keys",
    [
        [
            """
            CREATE TABLE podium_keys (
                key_id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, rules TEXT NOT NULL,
                created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION, revoked DOUBLE PRECISION,
                last_used DOUBLE PRECISION, requests_left DOUBLE PRECISION, tokens_left DOUBLE PRECISION,
                filled DOUBLE PRECISION
            )
            """,
            """
            CREATE TABLE podium_key_tokens (
                hash TEXT PRIMARY KEY, key_id TEXT NOT NULL, hint TEXT NOT NULL,
                created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION
            )
            """,
            "CREATE INDEX podium_key_tokens_key ON podium_key_tokens (key_id)",
            """
            CREATE TABLE podium_key_days (
                key_id TEXT NOT NULL, day TEXT NOT NULL, cost BIGINT NOT NULL, requests BIGINT NOT NULL,
                input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, PRIMARY KEY (key_id, day)
            )
            """,
            """
            CREATE TABLE podium_turns (
                turn_id TEXT PRIMARY KEY, key_id TEXT NOT NULL, run_id TEXT NOT NULL, day TEXT NOT NULL,
                cost BIGINT NOT NULL, holder TEXT, began DOUBLE PRECISION NOT NULL,
                forget_at DOUBLE PRECISION
            )
            """,
            "CREATE INDEX podium_turns_run ON podium_turns (run_id)",
            "CREATE INDEX podium_turns_open ON podium_turns (key_id) WHERE holder IS NOT NULL",
            "CREATE INDEX podium_turns_forget ON podium_turns (forget_at) WHERE forget_at IS NOT NULL",
            "CREATE TABLE podium_key_holders (holder TEXT PRIMARY KEY, until DOUBLE PRECISION NOT NULL)",
            """
            CREATE TABLE podium_sessions (
                hash TEXT PRIMARY KEY, key_id TEXT NOT NULL, until DOUBLE PRECISION NOT NULL
            )
            """,
        ],
        [
            f"ALTER TABLE {table} ADD COLUMN {column} BIGINT NOT NULL DEFAULT 0"
            for table, column in (
                ("podium_turns", "input_tokens"),
                ("podium_turns", "output_tokens"),
                ("podium_turns", "estimated_tokens"),
                ("podium_key_days", "estimated_tokens"),
            )
        ],
        ["CREATE INDEX podium_turns_key ON podium_turns (key_id, began, run_id)"],
        [
            """
            CREATE TABLE podium_key_changes (
                number BIGINT PRIMARY KEY, at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL,
                hash TEXT NOT NULL
            )
            """
        ],
        ["DROP TABLE podium_key_holders"],  # a process has one lease, in the table of the journal
    ],
)
"""The tables.

`podium_turns` has a row for each admitted request. While the request runs, `cost` is its reservation and
`holder` the process that runs it. After its end, `cost` and the tokens are its charge and `holder` is NULL.
`estimated_tokens` is a part of the other tokens. The buckets of the rate limits are `requests_left` and
`tokens_left` at the time `filled`; NULL means full.
"""
