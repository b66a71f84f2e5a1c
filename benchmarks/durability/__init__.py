"""The cost of durability: durable runs/s beside DBOS and LangGraph, the journal's share of a run, cancels.

    python -m benchmarks.durability [--quick] [--seconds 5] [--rounds 5] [--folder DIR] [--json FILE]

Every arm runs the same four-step diamond, two steps of it in parallel, with the same texts,
workers in its process that answer at once or after 100 ms, and as many runs in flight. The runs
of a group begin at once, so that all their steps end together, or spread over the time of a run. Every
step's output is committed and flushed to a real disk, alone or with others, before the run's
answer is returned:

- `podium-sqlite`, `podium-postgres`: `Conductor.run` of a fixed plan with an `SqlJournal` and
  its defaults (SQLite: write-ahead log, synchronous=FULL).
- `dbos-sqlite`, `dbos-postgres`: an async DBOS workflow of four async steps with its defaults
  (SQLite: rollback journal, synchronous=FULL); `dbos-sqlite-wal` is the same over a file in
  write-ahead log mode.
- `langgraph-sqlite`, `langgraph-postgres`: a compiled graph of four async nodes with LangGraph's
  async savers, invoked with `durability="sync"` (PostgreSQL: a pool of 10 connections).
- `podium`: no journal.

The command starts PostgreSQL itself, with fsync and synchronous_commit on. Each arm runs in its
own process; the arms take turns, block by block. A ratio is the median over the rounds of the
ratio within a round. At the end each database must hold as many complete runs as were answered.
Processes are not bound to cores.

A cancel is measured from the caller's cancel to the moment when the server, another process, sees
its connection closed, on the clock that both share.
"""
