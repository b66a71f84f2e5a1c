"""Reads public recordings from their origin. They are downloaded once, into the user's cache folder.

Unlike the packed files, these files have the text before the final answer. Tokens are estimated from the
whole text, so that the usage includes the reasoning that a model wrote down.
"""

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import anyio.to_thread

from podium.errors import ConfigError
from podium.usage import Usage, estimate_tokens
from podium_evals.errors import RecordingInvalid
from podium_evals.recorded import mmlu_pro, reasoning_gym
from podium_evals.recorded.downloader import Progress, download
from podium_evals.recorded.origins import Origin, mmlu_pro_origin, reasoning_gym_origin
from podium_evals.recorded.packed import Level
from podium_evals.recorded.recordings import Recording, Recordings, Sample

OnProgress = Callable[[Progress], None]


async def fetch_reasoning_gym(
    *,
    level: Level,
    kinds: Iterable[str] | None = None,
    folder: Path | None = None,
    origin: Origin | None = None,
    on_progress: OnProgress | None = None,
) -> Recordings:
    """Return the recorded answers to Reasoning Gym. Missing files are downloaded, about 250 MB for a level.

    Args:
        level: the level, `easy` or `hard`.
        kinds: the kinds; `None` means all kinds that are not held back for a last test.
        folder: the folder of downloads; `None` is the user's cache folder.
        origin: the files and their URLs; `None` is the repository at GitHub.
        on_progress: called after each file.

    Raises:
        ConfigError: a kind is unknown or held back.
        OriginUnavailable: a file is not served.
        ChecksumMismatch: a file has another checksum than listed.
        RecordingInvalid: a file cannot be read.
    """
    wanted = reasoning_gym.KINDS if kinds is None else frozenset(kinds)
    if unknown := sorted(wanted - reasoning_gym.KINDS):
        raise ConfigError(f"{unknown[0]!r} is not a kind of Reasoning Gym, or is held back for a last test")
    files = (origin or reasoning_gym_origin()).only(
        lambda path: path.parts[0] == level and path.stem in wanted
    )
    target = await download(files, folder, on_progress=on_progress)
    read = partial(_read_reasoning_gym, files, target, level)
    return await anyio.to_thread.run_sync(read)


async def fetch_mmlu_pro(
    *,
    workers: Sequence[str] = mmlu_pro.CHAT_MODELS,
    folder: Path | None = None,
    origin: Origin | None = None,
    on_progress: OnProgress | None = None,
) -> Recordings:
    """Return the recorded answers to MMLU-Pro. Missing files are downloaded, about 4 MB for a worker.

    Args:
        workers: the workers whose answers are returned.
        folder: the folder of downloads; `None` is the user's cache folder.
        origin: the files and their URLs; `None` is the repository at GitHub.
        on_progress: called after each file.

    Raises:
        ConfigError: a worker is not listed.
        OriginUnavailable: a file is not served.
        ChecksumMismatch: a file has another checksum than listed.
        RecordingInvalid: a file cannot be read.
    """
    files = (origin or mmlu_pro_origin()).only(lambda path: _worker_of_archive(path) in workers)
    listed = {_worker_of_archive(PurePosixPath(file.path)) for file in files.files}
    if unknown := sorted(set(workers) - listed):
        raise ConfigError(f"no answers of {unknown[0]!r} to MMLU-Pro are listed")
    target = await download(files, folder, on_progress=on_progress)
    return await anyio.to_thread.run_sync(partial(_read_mmlu_pro, files, target))


def _read_reasoning_gym(origin: Origin, folder: Path, level: str) -> Recordings:
    keys = dict[str, str]()
    read = (each for file in origin.files for each in _of_kind(folder, file.path, level, keys))
    return Recordings(read, origin.provenance)


def _of_kind(folder: Path, path: str, level: str, keys: dict[str, str]) -> Iterator[Recording]:
    """Yield the answers of one model to the questions of one kind.

    Args:
        folder: the folder with the files.
        path: `<level>/<model>_<date>_<time>/<category>/<kind>.json`.
        level: the level.
        keys: the content key of each question's name. Some models were asked other questions under the same
            number; the names of these questions get a suffix.
    """
    parts = PurePosixPath(path)
    worker = parts.parts[1].rsplit("_", 2)[0]
    with _reading(folder / path):
        results = json.loads((folder / path).read_bytes())
        instructed = estimate_tokens(results["system_prompt"])
        for index, row in enumerate(results["results"]):
            question = reasoning_gym.question(
                level, parts.stem, index, row["question"], row["expected_answer"]
            )
            if keys.setdefault(question.id, question.key) != question.key:
                question = replace(question, id=f"{question.id}~{question.key[:8]}")
            read = instructed + estimate_tokens(question.text)
            yield Recording(question, worker, tuple(_completion(each, read) for each in row["completions"]))


def _completion(row: Mapping[str, Any], read: int) -> Sample:
    usage = Usage(read, estimate_tokens(row["full_model_response"]), estimated=True)
    score = round(row["score"], 9)  # floating-point sums of parts exceed 1 in the last digit
    return Sample(text=row["model_answer"] or "", score=score, usage=usage)


def _read_mmlu_pro(origin: Origin, folder: Path) -> Recordings:
    read = (each for file in origin.files for each in _of_archive(folder / file.path))
    return Recordings(read, origin.provenance)


def _of_archive(path: Path) -> Iterator[Recording]:
    """Yield the answers of one model. For models behind an API, the text is in another field."""
    worker = _worker_of_archive(path)
    with _reading(path), zipfile.ZipFile(path) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".json") and "__MACOSX" not in name]
        for row in json.loads(archive.read(name)):
            if not isinstance(row, dict):
                continue  # one file has a list of categories between its rows
            question = mmlu_pro.question(row["category"], row["question"], row["options"], row["answer"])
            written = row["model_outputs"] if "model_outputs" in row else row["generated_text"]
            usage = Usage(estimate_tokens(question.text), estimate_tokens(written or ""), estimated=True)
            sample = replace(mmlu_pro.sample(row["pred"], row["answer"]), usage=usage)
            yield Recording(question, worker, (sample,))


def _worker_of_archive(path: PurePath) -> str:
    return path.name.removeprefix("model_outputs_").removesuffix("_5shots.zip")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Translate the errors of a file with another form into `RecordingInvalid`."""
    try:
        yield
    except (OSError, LookupError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise RecordingInvalid(f"{path} cannot be read: {type(error).__name__}: {error}") from error
