"""Reads what the processes and the database of a fleet have used so far."""

import os
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.replicas.fleet import Fleet

_TICKS = os.sysconf("SC_CLK_TCK")
_LOGGED = re.compile(r" duration: [0-9.]+ ms +(?:execute [^:]*|statement): +(.*)")
_TOTALS = """
SELECT xact_commit, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, numbackends - 1
FROM pg_stat_database WHERE datname = current_database()
"""
_FLUSH_SECONDS = 1.5
"""After this time, PostgreSQL has counted the commits of its other connections."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals so far; CPU times are in seconds."""

    wall: float
    replicas: float
    postgres: float
    client: float
    commits: int
    wal: int
    """Bytes of write-ahead log."""
    connections: int
    """Open connections of the replicas."""

    def __sub__(self, before: "Counters") -> "Counters":
        return Counters(
            wall=self.wall - before.wall,
            replicas=self.replicas - before.replicas,
            postgres=self.postgres - before.postgres,
            client=self.client - before.client,
            commits=self.commits - before.commits,
            wal=self.wal - before.wal,
            connections=self.connections,
        )


def read_counters(fleet: Fleet) -> Counters:
    """Return the totals of a fleet; the work between two readings has ended before the second."""
    wall = time.perf_counter()
    replicas, client = sum(each.cpu_s for each in fleet.replicas), time.process_time()
    postgres = cpu_of_tree(fleet.postgres.pid)
    time.sleep(_FLUSH_SECONDS)
    with psycopg.connect(fleet.database) as connection:
        row = connection.execute(_TOTALS).fetchone()
    assert row is not None
    return Counters(wall, replicas, postgres, client, *row)


def statements(fleet: Fleet) -> Counter[str]:
    """Return how often PostgreSQL has executed each statement; only for a fleet that logs statements."""
    text = fleet.postgres.log.read_text(encoding="utf-8", errors="replace")
    return Counter(" ".join(found.split())[:100] for found in _LOGGED.findall(text.replace("\n\t", " ")))


def cpu_of_tree(parent: int) -> float:
    """Return the CPU seconds of a process and of its children, also of those that have ended."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if folder.name == str(parent):
            ticks += sum(map(int, stat[11:15]))
        elif stat[1] == str(parent):
            ticks += int(stat[11]) + int(stat[12])
    return ticks / _TICKS
