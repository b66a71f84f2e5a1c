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


def test_json_of_a_plan(parse: Podium) -> None:
    """A plan is told with workers as numbers and access as indices."""
    result = parse(LISTS, "--json")
    steps = [
        {"worker": 0, "subtask": "Add é", "access": []},
        {"worker": 2, "subtask": "Say", "access": [0]},
    ]
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"ok": True, "plan": {"steps": steps}})


def test_json_of_an_error(parse: Podium) -> None:
    """An error is told with its code, a sentence and where."""
    result = parse(LISTS.replace('"all"', "7"), "--json")
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"], error["position"]) == (2, "forward_access", 66)
    assert set(error) == {"code", "message", "position"}


def test_table_and_caret_for_people(parse: Podium) -> None:
    """Without `--json` a plan is a table, and an error points at its place."""
    assert "Add é" in parse(LISTS).stdout
    result = parse(LISTS.replace('"all"', "7"))
    assert (result.exit_code, result.stdout) == (2, "")
    line, caret = result.stderr.splitlines()[1:3]
    assert line.endswith("access_list = [[], [7]]")
    assert line[caret.index("^")] == "7"


def test_names_stand_for_workers(podium: Podium) -> None:
    """With names for workers, a step may name its own; stdin is read for `-`."""
    text = '{"worker": "claude", "subtask": "Say", "access": []}\n'
    result = podium("plan", "--parse", "-", "--workers", "gpt,claude", "--json", input=text)
    assert json.loads(result.stdout)["plan"]["steps"][0]["worker"] == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 1000,
        b"[" * 2**18,
        b'{"steps": [' * 2**14,
    ],
    ids=["empty", "nul", "brackets", "objects"],
)
def test_any_bytes_give_a_reason(parse: Podium, data: bytes) -> None:
    """Bytes that are no plan give an error object, for programs and for people."""
    result = parse(data, "--json")
    assert (result.exit_code, json.loads(result.stdout)["ok"]) == (2, False)
    assert parse(data).exit_code == 2


@pytest.mark.parametrize("workers", ["0", "-1", "", "a,,b", "a,a"])
def test_unusable_workers_are_refused(podium: Podium, workers: str) -> None:
    """`--workers` is a number above 0 or names that differ."""
    result = podium("plan", "--parse", "-", f"--workers={workers}", input=LISTS)
    assert result.exit_code == 2
    assert "--workers" in result.stderr


@pytest.mark.parametrize(
    ("data", "told"),
    [(None, "it does not exist"), (b"\xff\xfe", "it is not UTF-8 text"), (b"x" * 2**21, "it is longer than")],
)
def test_unreadable_file_is_told(podium: Podium, tmp_path: Path, data: bytes | None, told: str) -> None:
    """A file that is not there, or no text, is no plan and no traceback."""
    path = tmp_path / "plan.txt"
    if data is not None:
        path.write_bytes(data)
    result = podium("plan", "--parse", str(path), "--workers", "2")
    assert result.exit_code == 2
    assert f"cannot be read: {told}" in result.stderr
