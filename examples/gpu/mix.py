"""The questions of the RL Conductor (arXiv 2512.04388, section 4.1), from local copies of their sources.

    python examples/gpu/mix.py --out questions.jsonl --math FILE --mmlu FILE --rlpr FILE --livecodebench FILE

The paper trains on as many questions of each of four sources. Nothing is downloaded.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from podium.errors import ConfigError, PodiumError, install_hint
from podium_evals.recorded import content_key, with_options

EACH = 240
"""Questions of each source in the paper."""
LONGEST = 30
"""Characters of the longest answer of RLPR, as in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A published set of questions, and how a row of it becomes a question."""

    name: str
    """Where its publisher has it."""
    file: str
    """The file there."""
    licence: str
    """As far as it is known."""
    grader: str
    read: Callable[[Mapping[str, Any]], dict[str, Any] | None]
    """Returns `question` and what the grader reads; `None` for a row that the mix leaves out. Raises
    `LookupError`, `TypeError` or `ValueError` for a row of another form."""


def _math(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"question": row["problem"], "answer": row["answer"], "level": str(row["level"])}


def _mmlu(row: Mapping[str, Any]) -> dict[str, Any]:
    options = list(row["choices"])
    return {"question": row["question"], "options": options, "answer": ascii_uppercase[int(row["answer"])]}


def _rlpr(row: Mapping[str, Any]) -> dict[str, Any] | None:
    asked = [message["content"] for message in row["prompt"] if message["role"] == "user"]
    answer = str(row["reward_model"]["ground_truth"]).strip()
    return {"question": asked[-1], "answer": answer} if 0 < len(answer) <= LONGEST else None


def _livecodebench(row: Mapping[str, Any]) -> dict[str, Any]:
    public, starter = json.loads(row["public_test_cases"]), row["starter_code"]
    tests: dict[str, Any] = {"cases": [{key: each[key] for key in ("input", "output")} for each in public]}
    if row["private_test_cases"]:
        tests["packed"] = row["private_test_cases"]
    how = "Read the input from the standard input, and print the output."
    tests["type"] = "stdin"
    if starter:
        how = f"Complete this code:\n\n```python\n{starter}\n```"
        tests |= {"type": "call", "function": json.loads(row["metadata"])["func_name"]}
    asked = f"{row['question_content']}\n\nWrite a Python program. {how}"
    return {"question": asked, "tests": tests, "level": row["difficulty"]}


SOURCES: Mapping[str, Source] = {
    "math": Source(
        name="HuggingFaceH4/MATH-500",
        file="test.jsonl",
        licence="MIT (MATH); its selection of 500: see the publisher",
        grader="math",
        read=_math,
    ),
    "mmlu": Source(
        name="cais/mmlu", file="all/test-00000-of-00001.parquet", licence="MIT", grader="choice", read=_mmlu
    ),
    "rlpr": Source(
        name="openbmb/RLPR-Train-Dataset",
        file="its parquet file",
        licence="see the publisher",
        grader="math",
        read=_rlpr,
    ),
    "livecodebench": Source(
        name="livecodebench/code_generation_lite",
        file="test.jsonl (release v1)",
        licence="cc, and terms of the contest sites: see the publisher",
        grader="code",
        read=_livecodebench,
    ),
}
"""The sources, by the kind of their questions; the publishers' names are those of the Hugging Face Hub."""


def write_mix(files: Mapping[str, Path | None], out: Path, *, each: int, seed: int) -> int:
    """Write as many questions of each source, and return their number. Equal arguments give an equal file."""
    if missing := [kind for kind in SOURCES if files.get(kind) is None]:
        told = "".join(f"\n  --{kind} FILE: {_told(SOURCES[kind])}" for kind in missing)
        raise ConfigError(f"the mix needs local copies of its sources, and these are missing:{told}")
    if out.exists():
        raise ConfigError(f"{out} exists: name another file with --out")
    rows = [
        row
        for kind, source in SOURCES.items()
        if (path := files[kind]) is not None
        for row in _chosen(kind, source, path, each, seed)
    ]
    try:
        out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error}") from error
    return len(rows)


def _told(source: Source) -> str:
    return f"{source.file} of https://huggingface.co/datasets/{source.name} (licence: {source.licence})"


def _chosen(kind: str, source: Source, path: Path, each: int, seed: int) -> Sequence[dict[str, Any]]:
    """Return the questions whose digests are lowest, whatever the order of the file."""
    found: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(_rows(path), 1):
        try:
            read = source.read(row)
            if read is not None:
                asked = with_options(read["question"], read.get("options", ()))
                found.setdefault(content_key(asked), read)
        except (LookupError, TypeError, ValueError, PodiumError) as error:
            told = f"{path}, row {number} is not a row of {source.name}: {type(error).__name__}: {error}"
            raise ConfigError(f"{told}; take {_told(source)}") from error
    if len(found) < each:
        raise ConfigError(f"{path} has {len(found)} usable questions, and the mix takes {each}")
    about = {"kind": kind, "grader": source.grader, "source": source.name, "licence": source.licence}
    chosen = sorted(found, key=lambda key: sha256(f"{seed}/{key}".encode()).digest())[:each]
    return [{"id": f"{kind}/{key[:16]}", **found[key], **about} for key in chosen]


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if not path.is_file():
        raise ConfigError(f"{path} is not a file: name a local copy of the source")
    try:
        if path.suffix != ".parquet":
            with path.open(encoding="utf-8") as file:
                yield from (json.loads(line) for line in file if line.strip())
            return
        parquet = import_module("pyarrow.parquet")  # slow to import

        for batch in parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except ImportError as error:
        raise ConfigError(f"{path} needs pyarrow: {install_hint('podium-train[trl]')}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def main() -> int:
    """Write the questions; return 1 after an error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the file of questions to write")
    for kind, source in SOURCES.items():
        parser.add_argument(f"--{kind}", type=Path, help=source.name)
    parser.add_argument("--each", type=int, default=EACH, help="number of questions of each source")
    parser.add_argument("--seed", type=int, default=42, help="seed of the choice")
    given = parser.parse_args()
    files = {kind: getattr(given, kind) for kind in SOURCES}
    try:
        written = write_mix(files, given.out, each=given.each, seed=given.seed)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{given.out} has {written} questions. Code is graded with `python` in [environment].")
    for kind, source in SOURCES.items():
        print(f"  {kind}: {source.name}, licence: {source.licence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
