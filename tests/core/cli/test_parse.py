"""`podium plan --parse`: any text in, a plan or a reason out."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Podium = Callable[..., Result]
LISTS = 'model_id = [0, 2]\nsubtasks = ["Add é", "Say"]\naccess_list = [[], ["all"]]\n'


@pytest.fixture
def parse(podium: Podium, tmp_path: Path) -> Podium:
    """Write a text to a file and parse that."""

    def run(text: str | bytes, *args: str) -> Result:
        path = tmp_path / "plan.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return podium("plan", "--parse", str(path), "--workers", "3", *args)

    return run


def test_a_plan(parse: Podium) -> None:
    """It is told as JSON with workers as numbers and access as indices, or as a table."""
    result = parse(LISTS, "--json")
    steps = [
        {"worker": 0, "subtask": "Add é", "access": []},
        {"worker": 2, "subtask": "Say", "access": [0]},
    ]
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"ok": True, "plan": {"steps": steps}})
    assert "Add é" in parse(LISTS).stdout


def test_an_error(parse: Podium) -> None:
    """It is told as JSON with its code and where, or with a caret at its place."""
    result = parse(LISTS.replace('"all"', "7"), "--json")
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"], error["position"]) == (2, "forward_access", 66)
    assert set(error) == {"code", "message", "position"}
    result = parse(LISTS.replace('"all"', "7"))
    assert (result.exit_code, result.stdout) == (2, "")
    line, caret = result.stderr.splitlines()[1:3]
    assert line.endswith("access_list = [[], [7]]")
    assert line[caret.index("^")] == "7"
    for data in (b"", b"\0" * 1000, b"[" * 2**18):
        result = parse(data, "--json")
        assert (result.exit_code, json.loads(result.stdout)["ok"]) == (2, False)
        assert parse(data).exit_code == 2


def test_names_stand_for_workers(podium: Podium) -> None:
    """With names for workers, a step may name its own; stdin is read for `-`."""
    text = '{"worker": "claude", "subtask": "Say", "access": []}\n'
    result = podium("plan", "--parse", "-", "--workers", "gpt,claude", "--json", input=text)
    assert json.loads(result.stdout)["plan"]["steps"][0]["worker"] == 1
    for workers in ("0", "", "a,,b", "a,a"):
        result = podium("plan", "--parse", "-", f"--workers={workers}", input=LISTS)
        assert (result.exit_code, "--workers" in result.stderr) == (2, True)


def test_unreadable_file_is_told(parse: Podium, podium: Podium) -> None:
    """A file that is not there, or no text, is no plan and no traceback."""
    for result, told in (
        (podium("plan", "--parse", "missing.txt", "--workers", "2"), "it does not exist"),
        (parse(b"\xff\xfe"), "it is not UTF-8 text"),
        (parse(b"x" * 2**21), "it is longer than"),
    ):
        assert result.exit_code == 2
        assert f"cannot be read: {told}" in result.stderr
