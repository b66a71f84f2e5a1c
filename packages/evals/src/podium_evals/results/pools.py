"""Reads a recording, and selects the workers of a named pool."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio

from podium.errors import ConfigError
from podium_evals.recorded import (
    Progress,
    Recordings,
    fetch_mmlu_pro,
    fetch_reasoning_gym,
    read_bfcl,
    read_mmlu_pro,
    read_reasoning_gym,
    read_recordings,
)
from podium_evals.recorded.public import CHAT_MODELS, PRICED, RELEVANCE, Level

MID = (
    "anthropic_claude-3.5-sonnet",
    "google_gemma-3-27b-it",
    "meta-llama_llama-3.3-70b-instruct",
    "meta-llama_llama-4-maverick",
    "meta-llama_llama-4-scout",
    "mistralai_mistral-small-3.1-24b-instruct",
    "qwen_qwq-32b",
)
"""The workers of Reasoning Gym without the strongest four: o3-mini, DeepSeek R1, Claude Sonnet 4, Grok 3
mini."""

EASY, HARD, MMLU = "reasoning-gym-easy", "reasoning-gym-hard", "mmlu-pro"
CALLS, CALLS_ONLY = "bfcl", "bfcl-without-relevance"
"""Tool calls, with and without the kind in which no function fits (`bfcl.RELEVANCE`)."""
POOLS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    EASY: {"mid": MID},
    HARD: {"mid": MID},
    MMLU: {"chat": CHAT_MODELS},
    CALLS: {"priced": PRICED},
    CALLS_ONLY: {"priced": PRICED},
}
"""The public recordings, and the workers of their named pools. Each recording also has the pool `all`."""


async def read_pool(
    recording: str,
    pool: str = "all",
    *,
    folder: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Recordings:
    """Return the answers of a pool to those questions that all of its workers have answered.

    Args:
        recording: the name of a public recording, or the path of a file that `write_recordings` wrote.
        pool: the name of a pool of the recording, `all`, or names of workers separated by commas.
        folder: the folder with files of public recordings. A file is named `<recording>.jsonl.gz`, as `podium
            record fetch` names it, or is a packed file. `None` fetches the files from their origin.
        on_progress: called after each fetched file.

    Raises:
        ConfigError: there is no such recording, or its file is not in the folder.
        RecordingInvalid: the file cannot be read, or the recording lacks a worker.
        OriginUnavailable: a file is not served.
        ChecksumMismatch: a file has another checksum than listed.
    """
    found = await read_recording(recording, folder=folder, on_progress=on_progress)
    return found.only(named_workers(recording, pool) or found.workers)


def named_workers(recording: str, pool: str) -> Sequence[str] | None:
    """Return the workers of a pool; `None` for the pool `all`.

    Args:
        recording: the name of a public recording, or a path.
        pool: the name of a pool of the recording, `all`, or names of workers separated by commas.
    """
    if pool == "all":
        return None
    known = POOLS.get(recording, {})
    return known.get(pool) or [name.strip() for name in pool.split(",") if name.strip()]


async def read_recording(
    recording: str,
    *,
    folder: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Recordings:
    """Return all answers of a recording. It has the same arguments and errors as `read_pool`."""
    if recording in POOLS:
        if folder is not None or recording in _PACKED:
            return _read_file(recording, folder or Path())
        if recording == MMLU:
            return await fetch_mmlu_pro(on_progress=on_progress)
        return await fetch_reasoning_gym(level=_level(recording), on_progress=on_progress)
    if not await anyio.Path(recording).is_file():
        raise ConfigError(f"{recording!r} is neither a file nor a public recording: {', '.join(POOLS)}")
    return read_recordings(recording)


_PACKED = {CALLS: "bfcl_recorded.jsonl.gz", CALLS_ONLY: "bfcl_recorded.jsonl.gz"}
"""The files of recordings that no command fetches."""
_FILES = {EASY: "reasoning_gym_recorded.jsonl.gz", HARD: "reasoning_gym_recorded.jsonl.gz"}
_FILES |= {MMLU: "mmlu_pro_recorded.jsonl.gz"} | _PACKED


def _read_file(recording: str, folder: Path) -> Recordings:
    fetched, packed = folder / f"{recording}.jsonl.gz", folder / _FILES[recording]
    if fetched.is_file():
        return read_recordings(fetched)
    if not packed.is_file():
        raise ConfigError(f"{folder} has no recording of {recording}. {_remedy(recording, fetched)}")
    if recording in _PACKED:
        found = read_bfcl(packed)
        return found if recording == CALLS else found.where(lambda question: question.kind != RELEVANCE)
    return read_mmlu_pro(packed) if recording == MMLU else read_reasoning_gym(packed, level=_level(recording))


def _remedy(recording: str, fetched: Path) -> str:
    if recording in _PACKED:
        return f"Name the folder with {_PACKED[recording]} (--data)"
    source = "mmlu-pro" if recording == MMLU else f"reasoning-gym --level {_level(recording)}"
    return f"Fetch it: podium evals record fetch {source} --out {shlex.quote(str(fetched))}"


def _level(recording: str) -> Level:
    return "easy" if recording == EASY else "hard"
