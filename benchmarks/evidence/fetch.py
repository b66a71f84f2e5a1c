"""Downloads a public recording of real models' answers from its repository, and writes one file.

    python -m benchmarks.evidence.fetch reasoning-gym-easy data/reasoning-gym-easy.jsonl.gz

The files of the repositories also have the text before the final answer: tokens are estimated from the whole
text, so that the usage includes the reasoning that a model wrote down. Each downloaded file is kept, and read
again if the command is repeated; one with another checksum than listed is refused.
"""

import argparse
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
from rich.console import Console

from benchmarks.evidence.recordings import (
    CHAT_MODELS,
    GYM,
    MMLU_PRO,
    choice,
    choice_question,
    gym_question,
    with_prices,
)
from podium.usage import Usage, estimate_tokens
from podium_evals.recorded import Provenance, Recording, Recordings, Sample, write_recordings

RAW = "https://raw.githubusercontent.com"
"""The URL under which GitHub serves the files of a commit."""


@dataclass(frozen=True, slots=True)
class OriginFile:
    """A file of a repository: its path there, and its SHA-256."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The files of a public recording, of one commit, and the URL before their paths."""

    provenance: Provenance
    url: str
    files: tuple[OriginFile, ...]
    read: Callable[[Path, Iterable[OriginFile]], Iterator[Recording]]


def origins() -> Mapping[str, Origin]:
    """Return the origins by the name of their recording. Files of kinds that are held back are not listed."""
    folder = "reasoninggym-paper-experiments/zero-shot/"
    gym = _origin("reasoning_gym", GYM, folder, _kinds)
    found = {
        f"reasoning-gym-{level}": replace(
            gym, files=tuple(file for file in gym.files if file.path.startswith(f"{level}/"))
        )
        for level in ("easy", "hard")
    }
    mmlu = _origin("mmlu_pro", MMLU_PRO, "eval_results/", _archives)
    chat = tuple(file for file in mmlu.files if worker_of_archive(file.path) in CHAT_MODELS)
    return found | {"mmlu-pro": replace(mmlu, files=chat)}


def _origin(name: str, provenance: Provenance, folder: str, read: Any) -> Origin:
    text = (Path(__file__).parent / "manifests" / f"{name}.tsv").read_text("utf-8")
    url = f"{RAW}{urlsplit(provenance.source).path}/{provenance.revision}/{folder}"
    rows = (line.split("\t") for line in text.splitlines() if line)
    return Origin(provenance, url, tuple(OriginFile(path, digest) for path, _size, digest in rows), read)


def fetch(origin: Origin, folder: Path, told: Callable[[str], object] = lambda _: None) -> Recordings:
    """Download the files that the folder lacks, and return the recording."""
    with httpx2.Client(timeout=30.0, follow_redirects=True) as client:
        for number, file in enumerate(origin.files, 1):
            path = folder / file.path
            if not (path.exists() and sha256(path.read_bytes()).hexdigest() == file.sha256):
                told(f"{number} of {len(origin.files)}: {file.path}")
                data = client.get(origin.url + quote(file.path)).raise_for_status().content
                if (found := sha256(data).hexdigest()) != file.sha256:
                    raise SystemExit(f"{file.path} has the SHA-256 {found}, but {file.sha256} is listed")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
    return with_prices(Recordings(origin.read(folder, origin.files), origin.provenance))


def _kinds(folder: Path, files: Iterable[OriginFile]) -> Iterator[Recording]:
    """Yield the answers to Reasoning Gym; each file has those of one model to the questions of one kind.

    Some models were asked other questions under the same number: the names of these questions get a suffix.
    """
    keys = dict[str, str]()
    for file in files:
        parts = PurePosixPath(file.path)
        worker = parts.parts[1].rsplit("_", 2)[0]
        results = json.loads((folder / file.path).read_bytes())
        instructed = estimate_tokens(results["system_prompt"])
        for index, row in enumerate(results["results"]):
            expected = row["expected_answer"]
            question = gym_question(parts.parts[0], parts.stem, index, row["question"], expected)
            if keys.setdefault(question.id, question.key) != question.key:
                question = replace(question, id=f"{question.id}~{question.key[:8]}")
            read = instructed + estimate_tokens(question.text)
            yield Recording(question, worker, tuple(_completion(each, read) for each in row["completions"]))


def _completion(row: Mapping[str, Any], read: int) -> Sample:
    usage = Usage(read, estimate_tokens(row["full_model_response"]), estimated=True)
    score = round(row["score"], 9)  # floating-point sums of parts exceed 1 in the last digit
    return Sample(text=row["model_answer"] or "", score=score, usage=usage)


def _archives(folder: Path, files: Iterable[OriginFile]) -> Iterator[Recording]:
    """Yield the answers to MMLU-Pro; each archive has one file with those of one model.

    For models behind an API, the text is in another field.
    """
    for file in files:
        with zipfile.ZipFile(folder / file.path) as archive:
            names = [each for each in archive.namelist() if not each.startswith("__MACOSX")]
            (name,) = [each for each in names if each.endswith(".json")]
            rows = json.loads(archive.read(name))
        for row in rows:
            if isinstance(row, dict):  # one file has a list of categories between its rows
                question = choice_question(row)
                written = row["model_outputs"] if "model_outputs" in row else row["generated_text"]
                usage = Usage(estimate_tokens(question.text), estimate_tokens(written or ""), estimated=True)
                sample = choice(row["pred"], row["answer"], usage)
                yield Recording(question, worker_of_archive(file.path), (sample,))


def worker_of_archive(path: str) -> str:
    """Return the model whose answers an archive has."""
    return PurePosixPath(path).name.removeprefix("model_outputs_").removesuffix("_5shots.zip")


def main() -> None:
    """Download a recording."""
    parser = argparse.ArgumentParser(description="Downloads a public recording of real models' answers.")
    parser.add_argument("recording", choices=sorted(origins()))
    parser.add_argument("out", type=Path, help="the new file; with the ending .gz, compressed")
    parser.add_argument("--folder", type=Path, default=Path("data/downloads"), help="folder of downloads")
    options = parser.parse_args()
    origin, console = origins()[options.recording], Console(stderr=True)
    about = origin.provenance
    console.print(f"{about.source} at {about.revision}, licence {about.licence}. Cite: {about.citation}")
    found = fetch(origin, options.folder / options.recording, console.print)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_recordings(found, options.out)


if __name__ == "__main__":
    main()
