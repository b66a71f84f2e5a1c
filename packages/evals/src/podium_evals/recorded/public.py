"""The public recordings: what they are, how their packed files are read, and how they are fetched.

The packed files of two of them have only the final answers, without usage and latency. The files of their
origins also have the text before the final answer: tokens are estimated from the whole text, so that the
usage includes the reasoning that a model wrote down. The third has usage and latency, but no texts.
"""

import gzip
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path, PurePath, PurePosixPath
from random import random
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import anyio
import anyio.to_thread
import httpx2
from platformdirs import user_cache_path

from podium.config.source import why_unreadable, why_unwritable
from podium.errors import ConfigError
from podium.usage import Usage, estimate_tokens
from podium_evals.errors import ChecksumMismatch, OriginUnavailable, RecordingInvalid, first_failure
from podium_evals.recorded.recordings import (
    NO_TEXT,
    Provenance,
    Question,
    Recording,
    Recordings,
    Sample,
    content_key,
    with_options,
)

Level = Literal["easy", "hard"]
_Rows = Iterable[Mapping[str, Any]]

GYM = Provenance(
    source="https://github.com/open-thought/reasoning-gym-eval",
    revision="5f09fecc342a25d693895b7304a9dec43b47f436",
    licence="Apache-2.0",
    citation="Stojanovski et al. 2025, REASONING GYM: Reasoning Environments for Reinforcement Learning with "
    "Verifiable Rewards, arXiv:2505.24760",
)
GYM_KINDS = frozenset(
    """
    ab acre aiw arc_1d arc_agi base_conversion bf binary_matrix bitwise_arithmetic boxnet
    caesar_cipher calendar_arithmetic chain_sum circuit_logic codeio complex_arithmetic count_bits
    countdown course_schedule cryptarithm decimal_chain_sum dice emoji_mystery figlet_font
    fraction_simplification futoshiki game_of_life game_of_life_halting graph_color group_anagrams
    gsm_symbolic intermediate_integration jugs knight_swap knights_knaves largest_island lcm
    leg_counting letter_counting letter_jumble list_functions mahjong_puzzle maze modulo_grid
    n_queens needle_haystack number_format number_sequence palindrome_generation
    palindrome_partitioning polynomial_multiplication pool_matrix power_function prime_factorization
    products propositional_logic puzzle24 quantum_lock ransom_note rearc rectangle_count
    rotate_matrix rotten_oranges rubiks_cube rush_hour self_reference sentence_reordering
    shortest_path simple_geometry simple_integration spell_backward spiral_matrix string_insertion
    string_manipulation string_splitting sudoku syllogism time_intervals tower_of_hanoi word_ladder
    word_sorting zebra_puzzles
    """.split()  # noqa: SIM905 - a list of 82 strings has a line for each
)
"""The kinds that may be used. The other 19 of the 101 recorded kinds are held back for a last test, so that
nothing is chosen by them or trained on them. Readers and loaders leave these kinds out."""
HELD_BACK = "its kind is held back for a last test"
"""The reason why an answer is left out."""

MMLU_PRO = Provenance(
    source="https://github.com/TIGER-AI-Lab/MMLU-Pro",
    revision="f418b116db00b065c2aea046518d8fcf74d39872",
    licence="Apache-2.0",
    citation="Wang et al. 2024, MMLU-Pro: A More Robust and Challenging Multi-Task Language Understanding "
    "Benchmark, arXiv:2406.01574",
)
CHAT_MODELS = tuple(
    """
    DeepSeek-Coder-V2 Meta-Llama-3_1-70B-Instruct Meta-Llama-3_1-8B-Instruct
    Mistral-7B-Instruct-v0.1 Mistral-7B-Instruct-v0.2 Mixtral-8x7B-Instruct-v0.1
    Phi-3-mini-4k-instruct Qwen1.5-72B-Chat Qwen1.5-7B-Chat Yi-6b-Chat c4ai-command-r-v01
    gemini-1.5-flash-002 gemini-1.5-pro-002 jamba-1.5-large mathstral-7B
    """.split()  # noqa: SIM905 - as above
)
"""The recorded models that are tuned to follow instructions. All other recorded models are base models."""

BFCL = Provenance(
    source="https://github.com/HuanzhiMao/BFCL-Result",
    revision="b4adfc9",
    citation="Patil et al. 2025, The Berkeley Function Calling Leaderboard (BFCL), ICML 2025",
)
"""Tool calls of August 2024. The repository states no licence; the questions are under Apache-2.0."""
CALL_KINDS = frozenset(
    """
    executable_multiple_function executable_parallel_function executable_simple java javascript
    multiple_function parallel_function parallel_multiple_function relevance simple
    """.split()  # noqa: SIM905 - as above
)
"""The kinds that may be used. The other two kinds, and eight models, are held back for a last test."""
RELEVANCE = "relevance"
"""The kind in which no function fits. Whatever the grader cannot read as a call counts as right, so figures
say whether they have this kind."""
PRICED = tuple(
    """
    claude-2.1 claude-3-haiku-20240307 claude-3-opus-20240229 claude-3-opus-20240229-FC
    claude-3-sonnet-20240229 claude-3-sonnet-20240229-FC command-r-plus gpt-3.5-turbo-0125
    gpt-3.5-turbo-0125-FC gpt-4-0125-preview gpt-4-0125-preview-FC gpt-4-0613 gpt-4-0613-FC
    gpt-4-1106-preview gpt-4-1106-preview-FC gpt-4-turbo-2024-04-09 gpt-4-turbo-2024-04-09-FC
    gpt-4o-2024-05-13 gpt-4o-2024-05-13-FC gpt-4o-2024-08-06 gpt-4o-2024-08-06-FC
    gpt-4o-mini-2024-07-18 gpt-4o-mini-2024-07-18-FC mistral-large-2407 mistral-large-2407-FC-Any
    mistral-large-2407-FC-Auto mistral-medium-2312 mistral-small-2402 mistral-small-2402-FC-Any
    mistral-small-2402-FC-Auto mistral-tiny-2312 open-mistral-nemo-2407
    open-mistral-nemo-2407-FC-Auto open-mixtral-8x22b open-mixtral-8x22b-FC-Auto open-mixtral-8x7b
    """.split()  # noqa: SIM905 - as above
)
"""The workers with a listed price whose tokens are all recorded. A name that ends in FC was asked through the
provider's interface for function calls, the plain name through a prompt: two forms of one model."""


def read_reasoning_gym(path: Path | str, *, level: Level | None = None) -> Recordings:
    """Read `reasoning_gym_recorded.jsonl.gz`.

    Args:
        path: the file.
        level: the level; `None` reads both. The pools of the levels differ. If a question is in both levels,
            its first row in the file counts.

    Raises:
        RecordingInvalid: the file has another form.
    """
    left_out = Counter[str]()

    def read(rows: _Rows) -> Iterator[Recording]:
        for row in rows:
            if level not in (None, row["level"]):
                continue
            if row["dataset"] not in GYM_KINDS:
                left_out[HELD_BACK] += len(row["answers"])
                continue
            question = _gym_question(row["level"], row["dataset"], row["index"], row["question"])
            for worker, answers in row["answers"].items():
                yield Recording(question, worker, tuple(_gym_sample(*answer) for answer in answers))

    return Recordings(read(_rows(path, "level", "dataset", "index", "question", "answers")), GYM, left_out)


def _gym_sample(text: str, score: float) -> Sample:
    """Return a sample. If the source lacks the answer, the packed text is `None` and the score 0 or 0.01."""
    is_missing = text == "None" and score <= 0.01
    return Sample(text="" if is_missing else text, score=score)


def read_mmlu_pro(path: Path | str) -> Recordings:
    """Read `mmlu_pro_recorded.jsonl.gz`.

    Raises:
        RecordingInvalid: the file has another form.
    """
    rows = _rows(path, "category", "question", "options", "answer", "pred")
    read = (
        Recording(_choice_question(row), worker, (_choice(chosen, row["answer"]),))
        for row in rows
        for worker, chosen in row["pred"].items()
    )
    return Recordings(read, MMLU_PRO)


def read_bfcl(path: Path | str) -> Recordings:
    """Read `bfcl_recorded.jsonl.gz`: scores, tokens and latency of tool calls, without the texts.

    An answer without token counts (a failed call) has no usage, so its worker has no cost.

    Raises:
        RecordingInvalid: the file has another form.
    """
    left_out = Counter[str]()

    def read(rows: _Rows) -> Iterator[Recording]:
        for row in rows:
            if row["kind"] not in CALL_KINDS:
                left_out[HELD_BACK] += len(row["answers"])
                continue
            question = Question(id=f"bfcl/{row['id']}", kind=row["kind"], text=row["question"])
            for worker, answer in row["answers"].items():
                if answer is not None:
                    yield Recording(question, worker, (_call_sample(worker, *answer),))

    return Recordings(read(_rows(path, "kind", "id", "question", "answers")), BFCL, left_out)


def _call_sample(
    worker: str, score: float, read: int | None, written: int | None, seconds: float | None
) -> Sample:
    """Return a recorded call. Its text names the worker, as equal texts of two workers would agree."""
    usage = None if read is None or written is None else Usage(read, written)
    text = f"{NO_TEXT} {worker}: {'right' if score else 'wrong'}"
    return Sample(text=text, score=float(score), usage=usage, latency_s=seconds)


def _rows(path: Path | str, *names: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a packed file. Each row has at least these fields."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                row = json.loads(line)
                if missing := set(names) - set(row):
                    raise RecordingInvalid(f"{path}, line {number}: the field {min(missing)!r} is missing")
                yield row
    except (OSError, EOFError, ValueError) as error:
        raise RecordingInvalid(f"{path} cannot be read: {why_unreadable(error)}") from error


def _gym_question(level: str, kind: str, index: int, text: str, expected: str | None = None) -> Question:
    name = f"reasoning_gym/{level}/{kind}/{index}"
    return Question(id=name, kind=kind, level=level, text=text, expected=expected)


def _choice_question(row: Mapping[str, Any]) -> Question:
    """Return a question of MMLU-Pro with its options.

    In the source, a question's id differs from model to model; therefore the id here is made of the content.
    Questions with the same text and other options share a split key.
    """
    kind, text = row["category"], row["question"]
    shown = with_options(text, row["options"])
    name = f"mmlu_pro/{kind}/{content_key(shown)[:12]}"
    return Question(id=name, kind=kind, text=shown, expected=row["answer"], split_key=content_key(text))


def _choice(chosen: str | None, answer: str) -> Sample:
    """Return a recorded choice. Without a letter it scores 0; the source's own script guesses one instead."""
    return Sample(text=chosen or "", score=float(chosen == answer))


RAW = "https://raw.githubusercontent.com"
"""The URL under which GitHub serves the files of a commit."""
AT_ONCE, ATTEMPTS = 4, 5
"""Files that are downloaded at the same time; requests for one of them."""
FIRST_WAIT = 0.5
"""The longest wait before the second request, in seconds; it doubles with each failure."""
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginFile:
    """A file of an origin."""

    path: str
    """The path below the origin's URL, with `/` between folders."""
    size: int
    """In bytes."""
    sha256: str
    """The checksum in hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The files of a public recording, of one commit, and their URL."""

    name: str
    """The name of the folder for the origin's files."""
    provenance: Provenance
    url: str
    """The URL before the path of a file, including the last `/`."""
    files: tuple[OriginFile, ...]

    def only(self, chosen: Callable[[PurePosixPath], bool]) -> "Origin":
        """Return the origin with only those files for whose path `chosen` returns true."""
        return replace(self, files=tuple(file for file in self.files if chosen(PurePosixPath(file.path))))


def reasoning_gym_origin() -> Origin:
    """Return the zero-shot answers in `open-thought/reasoning-gym-eval`: 1,628 files, 500 MB.

    Paths are `<level>/<model>_<date>_<time>/<category>/<kind>.json`. Files of kinds that are held back for a
    last test are not listed, and one that was missing when the list was made.
    """
    return _origin("reasoning_gym", GYM, "reasoninggym-paper-experiments/zero-shot/")


def mmlu_pro_origin() -> Origin:
    """Return the answers in `TIGER-AI-Lab/MMLU-Pro`: 29 archives, 104 MB.

    Paths are `model_outputs_<model>_5shots.zip`; each has one file of JSON. Some archives are not listed.
    """
    return _origin("mmlu_pro", MMLU_PRO, "eval_results/")


def _origin(name: str, provenance: Provenance, folder: str) -> Origin:
    text = files("podium_evals.recorded").joinpath("manifests", f"{name}.tsv").read_text(encoding="utf-8")
    url = f"{RAW}{urlsplit(provenance.source).path}/{provenance.revision}/{folder}"
    rows = (line.split("\t") for line in text.splitlines() if line)
    listed = tuple(OriginFile(path=path, size=int(size), sha256=digest) for path, size, digest in rows)
    return Origin(name=name, provenance=provenance, url=url, files=listed)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a download."""

    files: int
    """Number of complete files."""
    of_files: int
    bytes: int
    """Their size."""
    of_bytes: int


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
        folder: the folder of downloads; `None` is `podium/evals` in the user's cache folder.
        origin: the files and their URLs; `None` is the repository at GitHub.
        on_progress: called after each file.

    Raises:
        ConfigError: a kind is unknown or held back.
        OriginUnavailable: a file is not served.
        ChecksumMismatch: a file has another checksum than listed.
        RecordingInvalid: a file cannot be read.
    """
    wanted = GYM_KINDS if kinds is None else frozenset(kinds)
    if unknown := sorted(wanted - GYM_KINDS):
        raise ConfigError(f"{unknown[0]!r} is not a kind of Reasoning Gym, or is held back for a last test")
    chosen = (origin or reasoning_gym_origin()).only(
        lambda path: path.parts[0] == level and path.stem in wanted
    )
    target = await _download(chosen, folder, on_progress)
    keys = dict[str, str]()
    read = (each for file in chosen.files for each in _of_kind(target, file.path, level, keys))
    return await anyio.to_thread.run_sync(partial(Recordings, read, chosen.provenance))


async def fetch_mmlu_pro(
    *,
    workers: Sequence[str] = CHAT_MODELS,
    folder: Path | None = None,
    origin: Origin | None = None,
    on_progress: OnProgress | None = None,
) -> Recordings:
    """Return the recorded answers to MMLU-Pro. Missing files are downloaded, about 4 MB for a worker.

    Args:
        workers: the workers whose answers are returned.
        folder: the folder of downloads; `None` is `podium/evals` in the user's cache folder.
        origin: the files and their URLs; `None` is the repository at GitHub.
        on_progress: called after each file.

    Raises:
        ConfigError: a worker is not listed.
        OriginUnavailable: a file is not served.
        ChecksumMismatch: a file has another checksum than listed.
        RecordingInvalid: a file cannot be read.
    """
    chosen = (origin or mmlu_pro_origin()).only(lambda path: _worker_of_archive(path) in workers)
    listed = {_worker_of_archive(PurePosixPath(file.path)) for file in chosen.files}
    if unknown := sorted(set(workers) - listed):
        raise ConfigError(f"no answers of {unknown[0]!r} to MMLU-Pro are listed")
    target = await _download(chosen, folder, on_progress)
    read = (each for file in chosen.files for each in _of_archive(target / file.path))
    return await anyio.to_thread.run_sync(partial(Recordings, read, chosen.provenance))


async def _download(origin: Origin, folder: Path | None, on_progress: OnProgress | None) -> Path:
    """Download the files of an origin that are missing or have another checksum, and return their folder."""
    target = (folder or user_cache_path("podium", appauthor=False) / "evals") / origin.name
    done = list[OriginFile]()
    slots = anyio.CapacityLimiter(AT_ONCE)

    async def one(file: OriginFile) -> None:
        async with slots:
            path = target / file.path
            if await anyio.to_thread.run_sync(_digest, path) != file.sha256:
                data = await _got(client, origin.url + quote(file.path), file.sha256)
                await anyio.to_thread.run_sync(_write, path, data)
        done.append(file)
        if on_progress is not None:
            sizes = (sum(each.size for each in listed) for listed in (done, origin.files))
            on_progress(Progress(len(done), len(origin.files), *sizes))

    with first_failure():
        async with (
            httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=True) as client,
            anyio.create_task_group() as group,
        ):
            for file in origin.files:
                group.start_soon(one, file)
    return target


async def _got(client: httpx2.AsyncClient, url: str, digest: str) -> bytes:
    """Return the bytes under a URL. Broken connections and errors of servers are tried again."""
    why = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            await anyio.sleep(FIRST_WAIT * 2**attempt * random())  # noqa: S311 - spreads requests over time
        try:
            response = await client.get(url)
        except httpx2.HTTPError as error:
            why = f"{type(error).__name__}: {error}; {ATTEMPTS} requests failed"
            continue
        if response.status_code == 200:
            if (found := sha256(response.content).hexdigest()) != digest:
                raise ChecksumMismatch(f"{url} has the SHA-256 {found}, but {digest} is listed")
            return response.content
        why = f"the server answered {response.status_code}"
        if response.status_code != 429 and response.status_code < 500:
            break
    raise OriginUnavailable(f"{url}: {why}")


def _digest(path: Path) -> str:
    """Return the checksum of a file; empty if there is none."""
    return sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise OriginUnavailable(f"{path} cannot be written: {why_unwritable(error)}") from error


def _of_kind(folder: Path, path: str, level: str, keys: dict[str, str]) -> Iterator[Recording]:
    """Yield the answers of one model to the questions of one kind.

    Some models were asked other questions under the same number: the names of these questions get a suffix.
    `keys` has the content key of each question's name.
    """
    parts = PurePosixPath(path)
    worker = parts.parts[1].rsplit("_", 2)[0]
    with _reading(folder / path):
        results = json.loads((folder / path).read_bytes())
        instructed = estimate_tokens(results["system_prompt"])
        for index, row in enumerate(results["results"]):
            question = _gym_question(level, parts.stem, index, row["question"], row["expected_answer"])
            if keys.setdefault(question.id, question.key) != question.key:
                question = replace(question, id=f"{question.id}~{question.key[:8]}")
            read = instructed + estimate_tokens(question.text)
            yield Recording(question, worker, tuple(_completion(each, read) for each in row["completions"]))


def _completion(row: Mapping[str, Any], read: int) -> Sample:
    usage = Usage(read, estimate_tokens(row["full_model_response"]), estimated=True)
    score = round(row["score"], 9)  # floating-point sums of parts exceed 1 in the last digit
    return Sample(text=row["model_answer"] or "", score=score, usage=usage)


def _of_archive(path: Path) -> Iterator[Recording]:
    """Yield the answers of one model. For models behind an API, the text is in another field."""
    worker = _worker_of_archive(path)
    with _reading(path), zipfile.ZipFile(path) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".json") and "__MACOSX" not in name]
        for row in json.loads(archive.read(name)):
            if not isinstance(row, dict):
                continue  # one file has a list of categories between its rows
            question = _choice_question(row)
            written = row["model_outputs"] if "model_outputs" in row else row["generated_text"]
            usage = Usage(estimate_tokens(question.text), estimate_tokens(written or ""), estimated=True)
            yield Recording(question, worker, (replace(_choice(row["pred"], row["answer"]), usage=usage),))


def _worker_of_archive(path: PurePath) -> str:
    return path.name.removeprefix("model_outputs_").removesuffix("_5shots.zip")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Translate the errors of a file with another form into `RecordingInvalid`."""
    try:
        yield
    except (OSError, LookupError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise RecordingInvalid(f"{path} cannot be read: {type(error).__name__}: {error}") from error
