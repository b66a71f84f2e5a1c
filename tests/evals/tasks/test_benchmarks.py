"""Questions of known benchmarks, from loopback servers that serve samples in their formats."""

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from evals.hub_server import HubServer
from evals.task_rows import GPQA, LIVECODEBENCH, MATH500, MMLU, RIGHT, ROWS

from podium.errors import ConfigError
from podium_evals.errors import ChecksumMismatch, OriginUnavailable, RecordingInvalid
from podium_evals.grading import GRADERS, choose_graders
from podium_evals.recorded import Origin, OriginFile
from podium_evals.recording import QuestionRow, read_questions
from podium_evals.tasks import TASKS, HubFiles, HubSplit, LoadedTask, draw_rows, load_task, write_questions

pytestmark = pytest.mark.anyio


def served() -> HubServer:
    """Return a hub that has all tasks."""
    splits, files = {}, {}
    for name, task in TASKS.items():
        if isinstance(source := task.source, HubSplit):
            splits[source.dataset, source.config, source.split] = ROWS[name]
        elif isinstance(source, HubFiles):
            path = f"datasets/{source.dataset}/resolve/{source.revision}/{source.paths[0]}"
            files[path] = lines(ROWS[name])
    return HubServer(splits, files)


def lines(rows: Any) -> bytes:
    """Return rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


async def load(name: str, server: HubServer, folder: Path) -> LoadedTask:
    """Load a task from a server; MATH500 is on another one."""
    task = TASKS[name]
    if isinstance(task.source, Origin):
        data = lines(ROWS[name])
        listed = replace(task.source.files[0], size=len(data), sha256=sha256(data).hexdigest())
        server.files = {f"math/{listed.path}": data}
        url = f"{server.url}/cdn/math/"
        task = replace(task, source=Origin(name="m", provenance=task.provenance, url=url, files=(listed,)))
    return await load_task(task, folder=folder, hub=server.hub)


@pytest.mark.long
@pytest.mark.parametrize("name", TASKS)
async def test_each_task_becomes_a_file_of_questions(name: str, tmp_path: Path) -> None:
    """Which a recorder reads, with a grader that scores a right answer 1 and a wrong one 0."""
    with served().in_thread() as server:
        loaded = await load(name, server, tmp_path / "cache")
    write_questions(loaded.rows, tmp_path / "q.jsonl")
    first = read_questions(tmp_path / "q.jsonl")[0]
    assert first.row["grader"] == TASKS[name].grader
    assert first.question.kind
    grader = choose_graders([first], None, "python3")(first.row)
    assert grader is not None
    right = RIGHT.get(name, f"The answer is ({first.row.get('answer')}).")
    assert grader(first.row, right) == 1.0
    assert grader(first.row, "I do not know. ```python\nx = 1\n```") == 0.0


async def test_gpqa_has_its_right_answer_at_places_that_stay(tmp_path: Path) -> None:
    """The source has it first."""
    with served().in_thread() as server:
        rows = (await load("gpqa-diamond", server, tmp_path)).rows
    assert {row["options"]["ABCD".index(row["answer"])] for row in rows} == {"red"}
    assert len({row["answer"] for row in rows}) > 1
    with served().in_thread() as server:
        assert (await load("gpqa-diamond", server, tmp_path / "again")).rows == rows


async def test_pages_are_followed_and_kept(tmp_path: Path) -> None:
    """A second time nothing is asked for."""
    with served().in_thread() as server:
        for _ in range(2):
            loaded = await load("mmlu", server, tmp_path)
            assert (len(loaded.rows), loaded.provenance.revision, len(server.requests)) == (120, "a1b2", 2)
    assert loaded.rows[7]["answer"] == "B"


async def test_a_broken_download_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the page that is missing, also where the last line was cut; a busy server is asked again."""
    monkeypatch.setattr("podium_evals.recorded.attempts.FIRST_WAIT", 0.001)
    with served().in_thread() as server:
        server.change = lambda number, _page: 200 if number == 1 else 500
        with pytest.raises(OriginUnavailable, match="answered 500; 5 requests failed"):
            await load("mmlu", server, tmp_path)
        (part,) = (tmp_path / "tasks").iterdir()
        with part.open("a") as file:
            file.write('{"question": "cut')
        server.change = lambda number, _page: 429 if number == 7 else 200
        assert len((await load("mmlu", server, tmp_path)).rows) == 120
        assert len(server.requests) == 1 + 5 + 2


async def test_a_dataset_that_changes_is_downloaded_again(tmp_path: Path) -> None:
    """Rows of two versions are not mixed."""
    with served().in_thread() as server:

        def change(number: int, _page: Mapping[str, Any]) -> int:
            server.revision = "a1b2" if number == 1 else "c3d4"
            return 200

        server.change = change
        loaded = await load("mmlu", server, tmp_path)
    assert (len(loaded.rows), loaded.provenance.revision) == (120, "c3d4")


def cut(_number: int, page: dict[str, Any]) -> int:
    """Cut a cell, as the viewer does with long ones."""
    page["rows"][0]["truncated_cells"] = ["question"]
    return 200


def partial(_number: int, page: dict[str, Any]) -> int:
    """Serve a part of a split that is too large."""
    page["partial"] = True
    return 200


def other(_number: int, page: dict[str, Any]) -> int:
    """Serve something else."""
    page.clear()
    return 200


def empty(_number: int, page: dict[str, Any]) -> int:
    """Serve no rows."""
    page["rows"] = []
    return 200


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (cut, "shortened the column 'question'"),
        (partial, "shortened the split"),
        (other, "has no rows"),
        (empty, "no rows, of"),
    ],
)
async def test_pages_that_are_not_whole_are_refused(change: Any, told: str, tmp_path: Path) -> None:
    """Nothing is left out silently."""
    with served().in_thread() as server:
        server.change = change
        with pytest.raises(OriginUnavailable, match=told):
            await load("mmlu", server, tmp_path)


async def test_a_gated_task_says_what_to_do(tmp_path: Path) -> None:
    """Without the token; with it, it is loaded."""
    with served().in_thread() as server:
        server.token = "hf_secret"  # noqa: S105 - of the test
        task, hub = TASKS["gpqa-diamond"], server.hub
        with pytest.raises(OriginUnavailable, match=r"accept its terms.*HF_TOKEN.*--file") as caught:
            await load_task(task, folder=tmp_path, hub=replace(hub, token=""))
        assert "hf_secret" not in str(caught.value) + repr(hub)
        assert len((await load_task(task, folder=tmp_path, hub=hub)).rows) == 8


async def test_the_users_own_file_is_read(tmp_path: Path) -> None:
    """CSV or JSON lines, without a network."""
    path = tmp_path / "gpqa_diamond.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(GPQA[0]))
        writer.writeheader()
        writer.writerows(GPQA)
    assert len((await load_task(TASKS["gpqa-diamond"], file=path)).rows) == 8
    (tmp_path / "m.jsonl").write_bytes(lines(MMLU))
    loaded = await load_task(TASKS["mmlu"], file=tmp_path / "m.jsonl")
    assert loaded.files == {str(tmp_path / "m.jsonl"): sha256(lines(MMLU)).hexdigest()}


@pytest.mark.parametrize(
    ("name", "content", "error", "told"),
    [
        ("a.jsonl", b'{"question": "q"}\n', RecordingInvalid, "line 1 is not a row of math500: the column"),
        ("a.jsonl", b"[1]\n", RecordingInvalid, "line 1 is not a JSON object"),
        ("a.jsonl", b"no json\n", RecordingInvalid, "cannot be read"),
        ("a.jsonl", b"\xff\xfe", RecordingInvalid, "cannot be read"),
        ("a.jsonl", b"", RecordingInvalid, "no question"),
        ("a.parquet", b"PAR1", ConfigError, "write it as JSON lines"),
        ("missing.jsonl", None, RecordingInvalid, "cannot be read"),
    ],
)
async def test_files_that_are_something_else(
    name: str, content: bytes | None, error: type[Exception], told: str, tmp_path: Path
) -> None:
    """Are refused, with the place."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=told):
        await load_task(TASKS["math500"], file=tmp_path / name)


async def test_files_are_checked(tmp_path: Path) -> None:
    """By the SHA-256 that the package or the hub tells."""
    with served().in_thread() as server:
        path = next(iter(server.files))
        await load("livecodebench", server, tmp_path)
        (kept,) = (tmp_path / "tasks").rglob("*.jsonl")
        assert kept.read_bytes() == lines(LIVECODEBENCH)
        server.files = {path: b"x" * len(lines(LIVECODEBENCH))}
        listed = OriginFile(path="m.jsonl", size=len(lines(MATH500)), sha256="0" * 64)
        origin = Origin(
            name="m", provenance=TASKS["math500"].provenance, url=f"{server.url}/cdn/", files=(listed,)
        )
        server.files = {"m.jsonl": lines(MATH500)}
        with pytest.raises(ChecksumMismatch):
            await load_task(replace(TASKS["math500"], source=origin), folder=tmp_path)


async def test_a_hub_that_tells_no_checksum_is_refused(tmp_path: Path) -> None:
    """A file that is not there, too."""
    with HubServer(files={}).in_thread() as server:
        with pytest.raises(OriginUnavailable, match="404"):
            await load_task(TASKS["livecodebench"], folder=tmp_path, hub=server.hub)
        hub = replace(server.hub, files=f"{server.url}/cdn")
        path = f"datasets/{TASKS['livecodebench'].source.dataset}"  # type: ignore[union-attr]
        revision = TASKS["livecodebench"].provenance.revision
        server.files = {f"{path}/resolve/{revision}/test6.jsonl": b"x"}
        with pytest.raises(OriginUnavailable, match="no SHA-256"):
            await load_task(TASKS["livecodebench"], folder=tmp_path, hub=hub)


def test_drawn_questions_are_spread_and_stay() -> None:
    """The same seed draws the same, in the order of the source."""
    rows = [{"question": f"Question {n}?", "n": n} for n in range(100)]
    drawn = [row["n"] for row in draw_rows(rows, 10, 1)]
    assert drawn == sorted(drawn) == [row["n"] for row in draw_rows(rows, 10, 1)]
    assert drawn != [row["n"] for row in draw_rows(rows, 10, 2)]
    assert max(drawn) > 50
    assert draw_rows(rows, 200, 1) == draw_rows(rows, None, 1) == rows


def test_graders_of_tasks_exist() -> None:
    """All but `code` need no permission."""
    assert {task.grader for task in TASKS.values()} <= {*GRADERS, "code"}


def test_code_is_not_run_without_permission() -> None:
    """The error says how to give it."""
    row = {"question": "q", "grader": "code", "tests": {}}
    asked = QuestionRow(question=None, row=row)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"--run-code python3.*--grader none"):
        choose_graders([asked], None, None)
    assert choose_graders([asked], "none", None)(row) is None
    with pytest.raises(ConfigError, match="'vibes' is unknown"):
        choose_graders([asked], "vibes", None)


def test_a_question_cannot_name_a_function() -> None:
    """A file of questions is data: it runs no module."""
    asked = QuestionRow(question=None, row={"question": "q", "grader": "os:getcwd"})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is 'os:getcwd': write exact"):
        choose_graders([asked], None, None)
