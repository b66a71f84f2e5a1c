"""Public recordings are fetched from a server with the layout of their origin, whole or not at all."""

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from evals.file_server import FileServer

from podium_evals.errors import ChecksumMismatch, OriginUnavailable, RecordingInvalid
from podium_evals.recorded import (
    Origin,
    OriginFile,
    Progress,
    Provenance,
    fetch_mmlu_pro,
    fetch_reasoning_gym,
    mmlu_pro_origin,
    reasoning_gym_origin,
)

pytestmark = pytest.mark.anyio
Fault = Callable[[str, int], str]


def results(*rows: tuple[str, str, list[tuple[str | None, float]]]) -> str:
    """Return a file of Reasoning Gym's evaluation."""
    return json.dumps(
        {
            "system_prompt": "Think step by step.",
            "results": [
                {
                    "question": question,
                    "expected_answer": expected,
                    "completions": [
                        {"model_answer": text, "full_model_response": "I think. " * 40, "score": score}
                        for text, score in answers
                    ],
                }
                for question, expected, answers in rows
            ],
        }
    )


def choices(*rows: dict[str, Any], text: str = "generated_text") -> str:
    """Return a file of MMLU-Pro's evaluation; names of categories stand between the rows of one model."""
    whole = {"question": "Which?", "options": ["x", "y"], "answer": "B", "category": "law", "question_id": 1}
    return json.dumps([whole | {text: "The answer is (B)."} | row for row in rows] + ["law"])


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """Write small files in the layout of both origins."""
    folder = tmp_path / "served"
    gym = {
        "easy/maker_model-a_20250315_163713/arithmetic/dice.json": results(
            ("What is 1 + 1?", "2", [("2", 1.0), ("2", 1.0), (None, 0.01)]),
            ("What is 2 + 2?", "4", [("5", 0.0)]),
        ),
        "easy/maker_model-b_20250401_000000/arithmetic/dice.json": results(
            ("What is 1 + 1? ", "2", [("3", 0.0)]), ("What is 3 + 3?", "6", [("6", 1.0)])
        ),
        "hard/maker_model-b_20250401_000000/logic/aiw.json": results(("Who?", "Alice", [("Alice", 1.0)])),
    }
    for path, text in gym.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    for name, text in {
        "a": choices({"pred": "B"}),
        "b(1)": choices({"pred": None}, text="model_outputs"),
    }.items():
        with zipfile.ZipFile(folder / f"model_outputs_{name}_5shots.zip", "w") as archive:
            archive.writestr(f"model_outputs_{name}_5shots.json", text)
            archive.writestr("__MACOSX/._x.json", "")
    return folder


@contextmanager
def serving(folder: Path, fault: Fault = lambda _path, _number: "") -> Iterator[tuple[FileServer, Origin]]:
    with FileServer(folder, fault).in_thread() as server:
        files = tuple(
            OriginFile(
                path=str(path.relative_to(folder)),
                size=path.stat().st_size,
                sha256=sha256(path.read_bytes()).hexdigest(),
            )
            for path in sorted(folder.rglob("*.*"))
        )
        provenance = Provenance(source="loopback", licence="Apache-2.0", citation="Nobody 2025")
        yield server, Origin(name="small", provenance=provenance, url=server.url, files=files)


async def test_reasoning_gym(served: Path, tmp_path: Path) -> None:
    """Questions are joined by content; another question under the same number has a name of its own."""
    with serving(served) as (_, origin):
        read = await fetch_reasoning_gym(level="easy", folder=tmp_path / "cache", origin=origin)
    assert [question.id.removeprefix("reasoning_gym/easy/dice/")[:2] for question in read.questions] == [
        "0",
        "1",
        "1~",
    ]
    first, second, third = read.questions
    assert (read.workers, first.expected) == (("maker_model-a", "maker_model-b"), "2")
    assert [sample.text for sample in read.samples(first, "maker_model-a")] == ["2", "2", ""]
    assert [sample.score for sample in read.samples(first, "maker_model-a")] == [1.0, 1.0, 0.0]
    assert read.samples(first, "maker_model-b")[0].text == "3"
    assert not read.samples(second, "maker_model-b")
    assert third.text == "What is 3 + 3?"
    assert read.provenance == origin.provenance


async def test_mmlu_pro(served: Path, tmp_path: Path) -> None:
    """Archives, with the text of APIs under another name, and names with brackets in their URL."""
    with serving(served) as (_, origin):
        read = await fetch_mmlu_pro(workers=["a", "b(1)"], folder=tmp_path / "cache", origin=origin)
    (question,) = read.questions
    assert question.kind == "law"
    assert [read.samples(question, worker)[0].score for worker in ("a", "b(1)")] == [1.0, 0.0]


ARCHIVE = "model_outputs_a_5shots.zip"


async def test_nothing_is_downloaded_twice(served: Path, tmp_path: Path) -> None:
    """What is there, and right, is read; what was changed since is fetched again."""
    told: list[Progress] = []
    fetch = partial(fetch_mmlu_pro, workers=["a", "b(1)"], folder=tmp_path / "cache")
    with serving(served) as (server, origin):
        for _ in range(2):
            await fetch(origin=origin, on_progress=told.append)
        assert len(server.requests) == 2
        (tmp_path / "cache" / "small" / ARCHIVE).write_text("changed")
        await fetch(origin=origin)
        assert server.requests[2:] == [(ARCHIVE, "")]
    assert (told[-1].files, told[-1].bytes) == (told[-1].of_files, told[-1].of_bytes)


@pytest.mark.parametrize(
    ("faults", "requests", "error"),
    [
        (["cut"], 2, None),
        (["503", "429"], 3, None),
        (["503"] * 5, 5, OriginUnavailable),
        (["404"] * 5, 1, OriginUnavailable),
        ([], 1, ChecksumMismatch),
    ],
)
async def test_requests_are_tried_again(
    served: Path,
    tmp_path: Path,
    faults: list[str],
    requests: int,
    error: type[Exception] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a broken connection and while the server is busy. A changed file is refused, and not kept."""
    monkeypatch.setattr("podium_evals.recorded.public.FIRST_WAIT", 0.001)
    whole = (served / ARCHIVE).read_bytes()
    told = pytest.raises(error, match=r"SHA-256|the server answered") if error else nullcontext()
    with serving(served, lambda _path, n: faults[n - 1] if n <= len(faults) else "") as (server, origin):
        if error is ChecksumMismatch:
            (served / ARCHIVE).write_bytes(whole[:-1] + b"?")
        with told:
            await fetch_mmlu_pro(workers=["a"], folder=tmp_path / "cache", origin=origin)
        assert len(server.requests) == requests
    kept = tmp_path / "cache" / "small" / ARCHIVE
    assert (kept.exists(), kept.with_name(f"{ARCHIVE}.part").exists()) == (error is None, False)
    assert error is not None or kept.read_bytes() == whole


async def test_a_file_of_another_form_is_told(served: Path, tmp_path: Path) -> None:
    path = "easy/maker_model-a_20250315_163713/arithmetic/dice.json"
    (served / path).write_text('{"results": []}')
    with serving(served) as (_, origin), pytest.raises(RecordingInvalid, match=r"dice\.json.*system_prompt"):
        await fetch_reasoning_gym(level="easy", folder=tmp_path / "cache", origin=origin)


def test_the_lists_name_what_is_there() -> None:
    """Each file once, with a checksum, below the commit of the repository."""
    for origin, files, models in ((reasoning_gym_origin(), 1628, 11), (mmlu_pro_origin(), 29, 29)):
        assert len({file.path for file in origin.files}) == len(origin.files) == files
        assert {len(file.sha256) for file in origin.files} == {64}
        assert origin.provenance.revision in origin.url
        parts = {
            file.path.split("/")[-3].rsplit("_", 2)[0] if "/" in file.path else file.path
            for file in origin.files
        }
        assert len(parts) == models
