"""The route report: it counts files of `podium`, and jumps between them."""

import re
import sys

import pytest

import podium
from benchmarks.route import Route, main, trace_run

FOLDER = podium.__path__[0]


def test_a_run_passes_through_podium_alone() -> None:
    """The stages of a run are among the files; no library is."""
    route = trace_run()
    names = {file.removeprefix(f"{FOLDER}/") for file in route.files}
    assert {"conductor.py", "planners/planner.py", "workers/simple.py"} <= names
    assert all(file.startswith(FOLDER) for file in route.files)
    assert route.switches >= route.jumps.total() > len(route.files)


def test_a_switch_is_a_call_into_another_file() -> None:
    """Calls within a file are none; returning from a library into the same file is one."""
    one, two = f"{FOLDER}/conductor.py", f"{FOLDER}/errors.py"
    route = Route((one, one, two, "/lib/anyio.py", two, "<string>"))
    assert (len(route.files), route.switches) == (2, 2)
    assert route.jumps == {(one, two): 1}


def test_the_command_prints_both_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the first line."""
    monkeypatch.setattr(sys, "argv", ["route", "--jumps", "1"])
    main()
    assert re.match(r"\d+ files of podium, \d+ switches between files\n", capsys.readouterr().out)
