"""Whether the process of a lease holder has ended, as far as this machine can know."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from podium.journal.sql import lease
from podium.journal.sql.lease import has_ended, new_holder

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")

HOLDER = "import sys; from podium.journal.sql.lease import new_holder; print(new_holder(), flush=True)"


def with_part(holder: str, index: int, part: str) -> str:
    """Return a holder's name with one part replaced, counted from the end."""
    parts = holder.rsplit(":", 4)
    parts[index] = part
    return ":".join(parts)


def test_a_process_that_was_killed_has_ended_before_anybody_waits_for_it() -> None:
    """A zombie holds no lease, nor does a process that is no more."""
    command = [sys.executable, "-c", f"{HOLDER}; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        holder = process.stdout.readline().strip()
        assert not has_ended(holder)
        process.kill()
        assert process.stdout.read() == ""  # its files are closed: it is a zombie, or about to be
        stat, end = Path(f"/proc/{process.pid}/stat"), time.monotonic() + 10.0
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < end
            time.sleep(0.01)
        assert has_ended(holder)
    assert has_ended(holder)


def test_other_names_may_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another machine, before a boot or in another container, ids mean nothing here."""
    holder = new_holder()
    assert new_holder() != holder  # each open journal has its own
    assert not has_ended(holder)
    assert has_ended(with_part(holder, 3, "1"))  # its process id was used again
    for namespace in ("", "another-boot.4026531836"):
        assert not has_ended(with_part(with_part(holder, 2, namespace), 3, "1"))
    for name in ("", "somebody", "a:b:c:d:e", "::::"):
        assert not has_ended(name)
    monkeypatch.setattr(lease, "PROC", tmp_path)  # without /proc nothing is known
    assert new_holder().rsplit(":", 4)[2:4] == ["", ""]
    assert not has_ended(with_part(holder, 3, "1"))
