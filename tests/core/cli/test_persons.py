"""A person as a worker, at the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from core.cli.test_resume import Spawn, at_a_terminal
from typer.testing import Result as Ran

Podium = Callable[..., Ran]
PLAN = {
    "steps": [
        {"worker": "thinker", "subtask": "Find a date.", "access": []},
        {"worker": "ann", "subtask": "Is the date good?", "access": [0]},
    ]
}
ANN = """
[workers.ann]
type = "person"
choices = ["yes", "no"]
deadline = 3600.0
otherwise = "no"

[planner]
type = "fixed"
plan = "plan.json"
"""


@pytest.fixture(autouse=True)
def person(config: Path) -> None:
    """Add a person to the config, and a plan that asks her."""
    config.write_text(config.read_text().partition("[planner]")[0] + ANN)
    config.with_name("plan.json").write_text(json.dumps(PLAN))


def test_a_question_is_answered_from_the_command_line(podium: Podium) -> None:
    """It is shown with the command that answers it, and the record has who answered."""
    ran = podium("run", "When?", "--run-id", "date")
    assert ran.exit_code == 4
    assert "`podium decide date --answer TEXT --action 1`" in ran.stderr
    shown = podium("show", "date").stdout
    assert "step 1 asks: Is the date good?\n\nStep 0: Find a date.\nforty-two\n" in shown
    assert "the answer is one of: yes, no\nthere is time until " in shown
    assert "answer it with `podium decide date --answer TEXT --action 1`" in shown
    for words, told in (
        (("--answer", "perhaps"), "write one of 'yes', 'no'"),
        (("approve",), "step 1 asks a question"),
        (("approve", "--answer", "yes"), "give a verdict"),
        (("--answer", "yes", "--action", "0"), "does not wait for a decision on step 0"),
    ):
        refused = podium("decide", "date", *words)
        assert (refused.exit_code, told in refused.stderr) == (2, True)
    assert podium("decide", "date", "--answer", "yes", "--by", "ann@office").exit_code == 0
    ran = podium("resume", "date")
    assert (ran.exit_code, ran.stdout) == (0, "yes\n")
    assert "answered by ann@office" in podium("show", "date").stdout
    exported = podium("audit", "export", "date").stdout
    assert '"by":"ann@office"' in exported.replace("\\", "").replace('": ', '":')
    assert podium("audit", "verify", "date").exit_code == 0


@pytest.mark.long
def test_a_question_is_asked_at_the_terminal(spawn: Spawn) -> None:
    """An answer that does not fit is asked again."""
    left, said = at_a_terminal(spawn, "perhaps\nyes", "run", "When?")
    assert left == 0
    assert "write one of" in said
    assert "step 1 asks: Is the date good?" in said
