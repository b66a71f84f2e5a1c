"""`podium plan --parse`: any bytes in, a plan or a reason out."""

import json
from collections.abc import Callable
from hashlib import sha256
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
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
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


def test_max_steps_is_kept(parse: Podium) -> None:
    """A plan longer than `--max-steps` is refused."""
    error = json.loads(parse(LISTS, "--json", "--max-steps", "1").stdout)["error"]
    assert error["code"] == "too_many_steps"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 1000,
        b"[" * 2**18,
        b"\xff\xfe" * 2**17,
        b'{"steps": [' * 2**14,
        b"".join(sha256(bytes([n % 256, n // 256])).digest() for n in range(2**13)),
        "{\ud800".encode("utf-8", "surrogatepass"),
        b"x" * 2**21,
    ],
    ids=["empty", "nul", "brackets", "no-utf8", "objects", "random", "surrogate", "too-long"],
)
def test_any_bytes_give_a_reason(parse: Podium, data: bytes) -> None:
    """Bytes that are no plan give an error object, for programs and for people."""
    result = parse(data, "--json")
    assert (result.exit_code, json.loads(result.stdout)["ok"]) == (2, False)
    assert parse(data).exit_code == 2


def test_lone_surrogate_survives(parse: Podium) -> None:
    """Half a surrogate pair in a subtask is replaced, and the plan read."""
    result = parse(LISTS.replace("é", "\ud800"), "--json")
    assert json.loads(result.stdout)["plan"]["steps"][0]["subtask"] == "Add \N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("workers", ["0", "-1", "", "a,,b", "a,a"])
def test_unusable_workers_are_refused(podium: Podium, workers: str) -> None:
    """`--workers` is a number above 0 or names that differ."""
    result = podium("plan", "--parse", "-", f"--workers={workers}", input=LISTS)
    assert result.exit_code == 2
    assert "--workers" in result.stderr


def test_missing_file_is_told(podium: Podium) -> None:
    """A file that is not there is no plan and no traceback."""
    result = podium("plan", "--parse", "/nowhere/plan.txt", "--workers", "2")
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr
