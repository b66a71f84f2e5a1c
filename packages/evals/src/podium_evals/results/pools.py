"""Which recording and which of its workers an evaluation is about."""

from collections.abc import Callable, Mapping
from pathlib import Path

import anyio

from podium.errors import ConfigError
from podium_evals.recorded import (
    Progress,
    Recordings,
    fetch_mmlu_pro,
    fetch_reasoning_gym,
    read_mmlu_pro,
    read_reasoning_gym,
    read_recordings,
)
from podium_evals.recorded.mmlu_pro import CHAT_MODELS
from podium_evals.recorded.packed import Level

MID = (
    "anthropic_claude-3.5-sonnet",
    "google_gemma-3-27b-it",
    "meta-llama_llama-3.3-70b-instruct",
    "meta-llama_llama-4-maverick",
    "meta-llama_llama-4-scout",
    "mistralai_mistral-small-3.1-24b-instruct",
    "qwen_qwq-32b",
)
"""The workers of Reasoning Gym without the strongest: o3-mini, DeepSeek R1, Claude Sonnet 4, Grok 3 mini."""

EASY, HARD, MMLU = "reasoning-gym-easy", "reasoning-gym-hard", "mmlu-pro"
POOLS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    EASY: {"mid": MID},
    HARD: {"mid": MID},
    MMLU: {"chat": CHAT_MODELS},
}
"""The public recordings, and the workers of their named pools. Each has the pool `all` too."""


async def read_pool(
    recording: str,
    pool: str = "all",
    *,
    folder: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Recordings:
    """Return the answers of a pool to the questions that all of its workers have answered.

    Args:
        recording: the name of a public recording, or the path of a file of `write_recordings`.
        pool: the name of one of the recording's pools, `all`, or names of workers separated by commas.
        folder: where the packed files of public recordings are; `None` fetches them from their origin.
        on_progress: is called after each fetched file.

    Raises:
        ConfigError: there is no such recording.
        RecordingInvalid: the file cannot be read, or nothing is recorded of a worker.
        OriginUnavailable: a file is not served.
        ChecksumMismatch: a file is not the one that is listed.
    """
    found = await _read(recording, folder, on_progress)
    if pool == "all":
        return found.only(found.workers)
    known = POOLS.get(recording, {})
    return found.only(known.get(pool) or [name.strip() for name in pool.split(",") if name.strip()])


async def _read(
    recording: str, folder: Path | None, on_progress: Callable[[Progress], None] | None
) -> Recordings:
    match recording:
        case "reasoning-gym-easy" | "reasoning-gym-hard":
            level: Level = "easy" if recording == EASY else "hard"
            if folder is None:
                return await fetch_reasoning_gym(level=level, on_progress=on_progress)
            return read_reasoning_gym(folder / "reasoning_gym_recorded.jsonl.gz", level=level)
        case "mmlu-pro":
            if folder is None:
                return await fetch_mmlu_pro(on_progress=on_progress)
            return read_mmlu_pro(folder / "mmlu_pro_recorded.jsonl.gz")
    if not await anyio.Path(recording).is_file():
        raise ConfigError(f"{recording!r} is neither a file nor a public recording: {', '.join(POOLS)}")
    return read_recordings(recording)
