"""Reads and writes recordings as files of JSON lines. A file can be read while answers are appended.

The first line says where the answers are from. The line of a question is before the lines of its samples:

    {"type": "recording", "version": 1, "source": "…", "revision": "", "licence": "", "citation": ""}
    {"type": "question", "id": "…", "kind": "…", "level": "", "text": "…", "expected": null, "split_key": "…"}
    {"type": "sample", "question": "…", "worker": "…", "text": "…", "score": 1, "usage": {…}, "latency_s": 2}

A sample refers to its question by the content key. Lines of the type `price` have the prices of the workers.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import date
from pathlib import Path
from typing import IO, Any

from podium.config.source import why_unreadable
from podium.errors import ConfigError
from podium.usage import Usage
from podium.workers import Price, PriceTier
from podium_evals.errors import RecordingInvalid
from podium_evals.recorded.recordings import (
    DatedPrice,
    PriceTable,
    Provenance,
    Question,
    Recording,
    Recordings,
    Sample,
)

VERSION = 1
_QUESTION = ("id", "kind", "level", "text", "expected", "split_key")


def header_line(provenance: Provenance) -> str:
    """Return the first line of a file."""
    return _line({"type": "recording", "version": VERSION} | asdict(provenance))


def question_line(question: Question) -> str:
    """Return the line of a question."""
    return _line({"type": "question"} | {name: getattr(question, name) for name in _QUESTION})


def sample_line(question: Question, worker: str, sample: Sample) -> str:
    """Return the line of a sample."""
    usage = None if sample.usage is None else {k: count for k, count in asdict(sample.usage).items() if count}
    told = {"type": "sample", "question": question.key, "worker": worker} | asdict(sample) | {"usage": usage}
    del told["asked_on"]
    if sample.asked_on is not None:
        told["asked_on"] = sample.asked_on.isoformat()
    return _line(told)


def price_line(price: DatedPrice) -> str:
    """Return the line of a price."""
    return _line({"type": "price"} | asdict(price) | {"as_of": price.as_of.isoformat()})


def write_recordings(recordings: Recordings, path: Path | str) -> None:
    """Write a recording to a new file. A file whose name ends in `.gz` is gzipped.

    Raises:
        FileExistsError: the file already exists.
    """
    with _open(Path(path), "xt") as file:
        file.write(header_line(recordings.provenance or Provenance(source=str(path))))
        file.writelines(map(price_line, recordings.prices))
        told = set[str]()
        for each in recordings:
            if each.question.key not in told:
                file.write(question_line(each.question))
                told.add(each.question.key)
            file.writelines(sample_line(each.question, each.worker, sample) for sample in each.samples)


def read_recordings(path: Path | str) -> Recordings:
    """Read a file that `write_recordings` or `podium evals record` wrote.

    A last line without a line end is left out: its writer was killed.

    Raises:
        RecordingInvalid: the file is not a recording.
    """
    questions = dict[str, Question]()
    samples = defaultdict[tuple[str, str], list[Sample]](list)
    prices = list[DatedPrice]()
    provenance: Provenance | None = None
    for where, row in _rows(Path(path)):
        try:
            match row["type"]:
                case "recording":
                    provenance = _provenance(row)
                case "question":
                    question = Question(**{name: row[name] for name in _QUESTION})
                    questions.setdefault(question.key, question)
                case "price":
                    prices.append(_dated_price(row))
                case "sample":
                    samples[row["question"], row["worker"]].append(_sample(row))
                case other:
                    raise RecordingInvalid(f"{where}: the type {other!r} is unknown")
        except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
            what = f"it lacks {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
            raise RecordingInvalid(f"{where} is not a row of a recording: {what}") from error
    if provenance is None:
        raise RecordingInvalid(f"{path} is not a recording: no line has the type 'recording'")
    if unknown := next((key for key, _ in samples if key not in questions), None):
        raise RecordingInvalid(f"{path} has answers to a question that is missing: {unknown!r}")
    found = (Recording(questions[key], worker, tuple(given)) for (key, worker), given in samples.items())
    return Recordings(found, provenance, prices=PriceTable(prices))


def read_pool(path: Path | str, pool: str = "all") -> Recordings:
    """Return the answers of a pool to those questions that all of its workers have answered.

    Args:
        path: a file as for `read_recordings`.
        pool: `all`, or names of workers separated by commas.

    Raises:
        RecordingInvalid: the file is not a recording, or lacks a worker.
    """
    found = read_recordings(path)
    return found.only(named_workers(pool) or found.workers)


def named_workers(pool: str) -> Sequence[str] | None:
    """Return the workers of a pool; `None` for the pool `all`."""
    return None if pool == "all" else [name.strip() for name in pool.split(",") if name.strip()]


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row, and its place for error messages."""
    try:
        with _open(path, "rt") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    return
                yield f"{path}, line {number}", json.loads(line)
    except (OSError, EOFError, ValueError) as error:
        raise RecordingInvalid(f"{path} cannot be read: {why_unreadable(error)}") from error


def _provenance(row: Mapping[str, Any]) -> Provenance:
    if row["version"] != VERSION:
        told = f"the recording is of version {row['version']!r}; this package reads {VERSION}"
        raise RecordingInvalid(told)
    return Provenance(**{each.name: row[each.name] for each in fields(Provenance)})


def _dated_price(row: Mapping[str, Any]) -> DatedPrice:
    return DatedPrice(
        worker=row["worker"],
        as_of=date.fromisoformat(row["as_of"]),
        price=_price(row["price"]),
        source=row["source"],
    )


def _price(row: Mapping[str, Any]) -> Price:
    tiers = tuple(PriceTier(above=tier["above"], price=_price(tier["price"])) for tier in row["tiers"])
    return Price(input=row["input"], output=row["output"], cached_input=row["cached_input"], tiers=tiers)


def _sample(row: Mapping[str, Any]) -> Sample:
    usage = None if row["usage"] is None else Usage(**row["usage"])
    day = row.get("asked_on")
    return Sample(
        text=row["text"],
        score=row["score"],
        usage=usage,
        latency_s=row["latency_s"],
        asked_on=None if day is None else date.fromisoformat(day),
    )


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _open(path: Path, mode: str) -> IO[str]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    opened: IO[str] = opener(path, mode, encoding="utf-8")
    return opened
