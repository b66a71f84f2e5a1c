"""Reads a recording, and selects the workers of a named pool."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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


@dataclass(frozen=True, slots=True)
class _Public:
    """A public recording: the workers of its named pools, and where its answers are."""

    pools: Mapping[str, tuple[str, ...]]
    packed: str
    """The name of the packed file."""
    read: Callable[[Path], Recordings]
    fetch: Callable[..., Awaitable[Recordings]] | None = None
    """`None` if no command fetches it."""
    source: str = ""
    """What `podium evals record fetch` calls it."""


def _gym(level: Level) -> _Public:
    return _Public(
        {"mid": MID},
        "reasoning_gym_recorded.jsonl.gz",
        partial(read_reasoning_gym, level=level),
        partial(fetch_reasoning_gym, level=level),
        f"reasoning-gym --level {level}",
    )


def _calls_only(path: Path) -> Recordings:
    return read_bfcl(path).where(lambda question: question.kind != RELEVANCE)


POOLS: Mapping[str, _Public] = {
    EASY: _gym("easy"),
    HARD: _gym("hard"),
    MMLU: _Public(
        {"chat": CHAT_MODELS}, "mmlu_pro_recorded.jsonl.gz", read_mmlu_pro, fetch_mmlu_pro, "mmlu-pro"
    ),
    CALLS: _Public({"priced": PRICED}, "bfcl_recorded.jsonl.gz", read_bfcl),
    CALLS_ONLY: _Public({"priced": PRICED}, "bfcl_recorded.jsonl.gz", _calls_only),
}
"""The public recordings. Each also has the pool `all`."""


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
    """Return the workers of a pool; `None` for the pool `all`."""
    if pool == "all":
        return None
    if recording in POOLS and pool in POOLS[recording].pools:
        return POOLS[recording].pools[pool]
    return [name.strip() for name in pool.split(",") if name.strip()]


async def read_recording(
    recording: str,
    *,
    folder: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Recordings:
    """Return all answers of a recording. It has the same arguments and errors as `read_pool`."""
    public = POOLS.get(recording)
    if public is None:
        if not await anyio.Path(recording).is_file():
            raise ConfigError(f"{recording!r} is neither a file nor a public recording: {', '.join(POOLS)}")
        return read_recordings(recording)
    if folder is None and public.fetch is not None:
        return await public.fetch(on_progress=on_progress)
    folder = folder or Path()
    fetched, packed = folder / f"{recording}.jsonl.gz", folder / public.packed
    if fetched.is_file():
        return read_recordings(fetched)
    if packed.is_file():
        return public.read(packed)
    remedy = f"Name the folder with {public.packed} (--data)"
    if public.source:
        remedy = f"Fetch it: podium evals record fetch {public.source} --out {shlex.quote(str(fetched))}"
    raise ConfigError(f"{folder} has no recording of {recording}. {remedy}")
