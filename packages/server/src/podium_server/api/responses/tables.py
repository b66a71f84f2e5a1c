"""The tables of stored responses, in the database of the journal. Times are seconds of Unix time."""

from podium.journal import Schema

SCHEMA = Schema(
    "responses",
    [
        [
            """
            CREATE TABLE podium_responses (
                response_id TEXT PRIMARY KEY, caller_id TEXT NOT NULL, previous_id TEXT, run_id TEXT NOT NULL,
                created DOUBLE PRECISION NOT NULL, status TEXT NOT NULL, request TEXT NOT NULL,
                items TEXT NOT NULL, response TEXT NOT NULL, forget_at DOUBLE PRECISION
            )
            """,
            """
            CREATE INDEX podium_responses_forget ON podium_responses (forget_at)
            WHERE forget_at IS NOT NULL
            """,
        ],
        [
            "ALTER TABLE podium_responses ADD COLUMN is_background INTEGER NOT NULL DEFAULT 0",
            """
            CREATE TABLE podium_response_events (
                response_id TEXT NOT NULL, number INTEGER NOT NULL, event TEXT NOT NULL,
                PRIMARY KEY (response_id, number)
            )
            """,
        ],
        ["CREATE INDEX podium_responses_created ON podium_responses (created)"],
    ],
)
"""The tables.

`request` is the body of the request, `items` its input without the input of earlier responses, and `response`
the response object. `podium_response_events` has the events of responses in the background, which jobs run:
see `podium_server.jobs.table`.
"""
