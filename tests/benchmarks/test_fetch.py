"""Public recordings are fetched from a server with the layout of their origin, whole or not at all."""

import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from benchmarks.evidence.fetch import Origin, OriginFile, fetch, origins


def results(*rows: tuple[str, str, list[tuple[str | None, float]]]) -> str:
    """Return a file of Reasoning Gym's evaluation."""
    found = []
    for question, expected, answers in rows:
        whole = {"full_model_response": "I think."}
        said = [{"model_answer": text, **whole, "score": score} for text, score in answers]
        found.append({"question": question, "expected_answer": expected, "completions": said})
    return json.dumps({"system_prompt": "Think step by step.", "results": found})


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
    shots = {"a": choices({"pred": "B"}), "b(1)": choices({"pred": None}, text="model_outputs")}
    for name, text in shots.items():
        with zipfile.ZipFile(folder / f"model_outputs_{name}_5shots.zip", "w") as archive:
            archive.writestr(f"model_outputs_{name}_5shots.json", text)
            archive.writestr("__MACOSX/._x.json", "")
    return folder


@contextmanager
def serving(folder: Path, name: str) -> Iterator[tuple[list[str], Origin]]:
    """Serve the files, in place of those of a repository; yield the paths that are asked for."""
    kind = "*.json" if name.startswith("reasoning-gym") else "*.zip"
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(unquote(self.path).removeprefix("/"))
            super().do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        files = tuple(
            OriginFile(str(path.relative_to(folder)), sha256(path.read_bytes()).hexdigest())
            for path in sorted(folder.rglob(kind))
            if name != "reasoning-gym-easy" or "easy" in path.parts
        )
        yield asked, replace(origins()[name], url=url, files=files)
        server.shutdown()


def test_reasoning_gym(served: Path, tmp_path: Path) -> None:
    """Questions are joined by content; another question under the same number has a name of its own."""
    with serving(served, "reasoning-gym-easy") as (_, origin):
        read = fetch(origin, tmp_path / "cache")
    ids = [question.id.removeprefix("reasoning_gym/easy/dice/")[:2] for question in read.questions]
    assert ids == ["0", "1", "1~"]
    first, second, third = read.questions
    assert (read.workers, first.expected) == (("maker_model-a", "maker_model-b"), "2")
    samples = [(sample.text, sample.score) for sample in read.samples(first, "maker_model-a")]
    assert samples == [("2", 1.0), ("2", 1.0), ("", 0.0)]
    assert read.samples(first, "maker_model-b")[0].text == "3"
    assert not read.samples(second, "maker_model-b")
    assert third.text == "What is 3 + 3?"
    assert read.provenance == origin.provenance


def test_mmlu_pro(served: Path, tmp_path: Path) -> None:
    """Archives, with the text of APIs under another name, and names with brackets in their URL.

    What is there, and right, is read; what was changed since is fetched again, and refused if it differs.
    """
    with serving(served, "mmlu-pro") as (asked, origin):
        read = fetch(origin, tmp_path / "cache")
        (question,) = read.questions
        assert question.kind == "law"
        assert [read.samples(question, worker)[0].score for worker in ("a", "b(1)")] == [1.0, 0.0]
        name = "model_outputs_a_5shots.zip"
        (tmp_path / "cache" / name).write_text("changed")
        fetch(origin, tmp_path / "cache")
        assert asked[2:] == [name]
        (tmp_path / "cache" / name).unlink()
        (served / name).write_bytes((served / name).read_bytes()[:-1] + b"?")
        with pytest.raises(SystemExit, match="has the SHA-256"):
            fetch(origin, tmp_path / "cache")
        assert not (tmp_path / "cache" / name).exists()


def test_the_lists_name_what_is_there() -> None:
    """Each file once, with a checksum, below the commit of the repository."""
    for name, files, models in (("reasoning-gym-easy", 819, 10), ("mmlu-pro", 15, 15)):
        origin = origins()[name]
        assert len({file.path for file in origin.files}) == len(origin.files) == files
        assert {len(file.sha256) for file in origin.files} == {64}
        assert origin.provenance.revision in origin.url
        found = [file.path.split("/") for file in origin.files]
        assert len({parts[-3].rsplit("_", 2)[0] if len(parts) > 1 else parts[0] for parts in found}) == models
