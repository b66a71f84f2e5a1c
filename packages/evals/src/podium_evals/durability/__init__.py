"""What durability costs: durable runs per second beside DBOS, the journal's share of a run, cancels.

    python -m podium_evals.durability [--quick] [--seconds 5] [--rounds 5] [--folder DIR] [--json FILE]

Every arm runs the same four-step diamond, two steps of it in parallel, with the same texts,
workers in its process that answer at once or after 10 ms, and as many runs in flight. Every
step's output is committed to a database on a real disk with a flush of its own or of a group,
before the run's answer is given:

- `podium-sqlite`, `podium-postgres`: `Conductor.run` of a given plan with an `SqlJournal`, as it
  comes (SQLite: write-ahead log, synchronous=FULL).
- `dbos-sqlite`, `dbos-postgres`: an async DBOS workflow of four async steps, as it comes (SQLite:
  rollback journal, synchronous=FULL); `dbos-sqlite-wal` is the same over a file that was switched
  to the write-ahead log.
- `podium`: no journal.

PostgreSQL is started by the command itself, with fsync and synchronous_commit on. Each arm runs in
a process of its own; the arms take turns, block by block. A ratio is the median over the rounds
of the ratio within a round. Afterwards each database is asked anew how many whole runs it holds,
which must be all that were answered. Processes are not bound to cores.

A cancel is measured from the moment the caller cancels to the moment the server, another process,
sees its connection closed, on the clock both share.
"""
