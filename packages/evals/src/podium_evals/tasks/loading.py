"""Loads the questions of a task: downloads its rows, or reads the user's own file."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from podium.config.source import why_unreadable
from podium.errors import ConfigError
from podium_evals.errors import OriginUnavailable, RecordingInvalid
from podium_evals.recorded import Origin, Progress, Provenance, default_folder, download
from podium_evals.tasks.hub import Hub, download_rows, hub_origin
from podium_evals.tasks.task import HubFiles, HubSplit, Row, Task

UNUSED = "the row has no question that a rule can grade"
csv.field_size_limit(2**24)  # some columns contain whole programs


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTask:
    """The questions of a task."""

    rows: tuple[Mapping[str, Any], ...]
    """The questions, as rows of a questions file."""
    provenance: Provenance
    files: Mapping[str, str]
    """The SHA-256 of each file that was read, by its path."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of the source's rows that were left out, by reason."""


async def load_task(
    task: Task,
    *,
    file: Path | None = None,
    folder: Path | None = None,
    hub: Hub | None = None,
    on_progress: Callable[[str], object] = lambda _told: None,
) -> LoadedTask:
    """Return the questions of a task. Missing files are downloaded.

    Args:
        task: the task.
        file: the user's own copy of the rows, JSON lines or CSV with the source's columns; `None` downloads.
        folder: the folder of downloads; `None` is the user's cache folder.
        hub: the hub; `None` is the hub of the environment variables.
        on_progress: called with a sentence about the progress of downloads.

    Raises:
        OriginUnavailable: the rows are not served, or only to users with the owners' consent.
        ChecksumMismatch: a file has another checksum than listed.
        RecordingInvalid: a file has other columns than the source.
    """
    provenance, paths = task.provenance, [file] if file is not None else []
    if file is None:
        try:
            provenance, paths = await _download(task, folder or default_folder(), hub, on_progress)
        except OriginUnavailable as error:
            if not task.gated:
                raise
            raise OriginUnavailable(f"{error}. {task.name} is gated: {task.gated}") from error
    rows, left_out = list[Mapping[str, Any]](), Counter[str]()
    for path in paths:
        for where, row in _rows(path):
            question = _question(task, row, where)
            if question is None:
                left_out[UNUSED] += 1
            else:
                rows.append(_named(task, question, len(rows)))
    if not rows:
        raise RecordingInvalid(f"{', '.join(map(str, paths))}: the file has no question")
    digests = {str(path): sha256(path.read_bytes()).hexdigest() for path in paths}
    return LoadedTask(rows=tuple(rows), provenance=provenance, files=digests, left_out=left_out)


async def _download(
    task: Task, folder: Path, hub: Hub | None, on_progress: Callable[[str], object]
) -> tuple[Provenance, list[Path]]:
    hub = hub or Hub.of_environment()

    def told_rows(rows: int, of_rows: int) -> None:
        on_progress(f"downloaded {rows:,} of {of_rows:,} rows")

    def told_files(progress: Progress) -> None:
        on_progress(f"downloaded {progress.files:,} of {progress.of_files:,} files")

    source = task.source
    if isinstance(source, HubSplit):
        path, revision = await download_rows(hub, source, folder / "tasks", on_rows=told_rows)
        return replace(task.provenance, revision=revision), [path]
    origin = await hub_origin(hub, source, task.provenance) if isinstance(source, HubFiles) else source
    target = await _files_of(origin, folder, told_files)
    return task.provenance, [target / each.path for each in origin.files]


async def _files_of(origin: Origin, folder: Path, told: Callable[[Progress], None]) -> Path:
    return await download(origin, folder / "tasks", on_progress=told)


def _rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield each row of a file, and its place for error messages."""
    if path.suffix.lower() == ".parquet":
        told = "pandas.read_parquet(FILE).to_json(NEW, orient='records', lines=True)"
        raise ConfigError(f"{path} is Parquet: write it as JSON lines, for instance by {told}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if path.suffix.lower() == ".csv":
                for number, row in enumerate(csv.DictReader(file), 2):
                    yield f"{path}, row {number}", row
                return
            for number, line in enumerate(file, 1):
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise RecordingInvalid(f"{path}, line {number} is not a JSON object")
                if set(row) != {"revision", "total"}:  # the first line of a download is a header
                    yield f"{path}, line {number}", row
    except (OSError, ValueError, csv.Error) as error:
        raise RecordingInvalid(f"{path} cannot be read: {why_unreadable(error)}") from error


def _question(task: Task, row: Row, where: str) -> Mapping[str, Any] | None:
    try:
        return task.question(row)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        told = (
            f"the column {error} is missing"
            if isinstance(error, KeyError)
            else f"{type(error).__name__}: {error}"
        )
        raise RecordingInvalid(f"{where} is not a row of {task.name}: {told}") from error


def _named(task: Task, question: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    return {"id": f"{task.name}/{number}", **question, "grader": task.grader}
