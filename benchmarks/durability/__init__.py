"""Measures durability: durable runs/s of Podium, DBOS and LangGraph, the journal's overhead, cancel latency.

    python -m benchmarks.durability [--quick] [--seconds 5] [--rounds 5] [--folder DIR] [--json FILE]

All arms run the same four-step diamond, with two parallel steps, the same texts, the same number of runs in
flight, and workers in their process that answer at once or after 100 ms. The runs of a group start at once,
so that all their steps end together, or spread over the duration of a run. The output of each step is
committed and flushed to a real disk, alone or with others, before the answer of the run is returned:

- `podium-sqlite`, `podium-postgres`: `Conductor.run` of a fixed plan with an `SqlJournal` and
  its defaults (SQLite: write-ahead log, synchronous=FULL).
- `dbos-sqlite`, `dbos-postgres`: an async DBOS workflow of four async steps with its defaults
  (SQLite: rollback journal, synchronous=FULL); `dbos-sqlite-wal` is the same with a file in
  write-ahead log mode.
- `langgraph-sqlite`, `langgraph-postgres`: a compiled graph of four async nodes with LangGraph's
  async savers, invoked with `durability="sync"` (PostgreSQL: a pool of 10 connections).
- `podium`: no journal.

The command starts PostgreSQL itself, with fsync and synchronous_commit on. Each arm runs in its own process;
the arms alternate, block by block. A ratio is the median of the ratios of all rounds. At the end, each
database must have as many complete runs as were answered. Processes are not bound to cores.

The latency of a cancel is the time from the caller's cancel to the moment when the server, in another
process, sees its connection closed, on the same clock.
"""
