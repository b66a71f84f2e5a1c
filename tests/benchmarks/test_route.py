"""The route report: it counts files of `podium`, and jumps between them."""

import re
import sys

import pytest

import podium
from benchmarks.route import main, trace_run

FOLDER = podium.__path__[0]


def test_a_run_passes_through_podium_alone() -> None:
    """The stages of a run are among the files; no library is."""
    route = trace_run()
    names = {file.removeprefix(f"{FOLDER}/") for file in route.files}
    assert {"conductor.py", "planners/planner.py", "workers/simple.py"} <= names
    assert all(file.startswith(FOLDER) for file in route.files)
    assert route.switches >= route.jumps.total() > len(route.files)


def test_the_command_prints_both_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the first line."""
    monkeypatch.setattr(sys, "argv", ["route", "--jumps", "1"])
    main()
    assert re.match(r"\d+ files of podium, \d+ switches between files\n", capsys.readouterr().out)
