"""The public recordings: what they are, how their packed files are read, and which workers a pool has.

The packed files of two of them have only the final answers, without usage and latency. The third has usage
and latency, but no texts.
"""

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from podium.errors import ConfigError
from podium.usage import Usage
from podium_evals.recorded import (
    PriceTable,
    Provenance,
    Question,
    Recording,
    Recordings,
    Sample,
    content_key,
    read_recordings,
    with_options,
)
from podium_evals.recorded.recordings import NO_TEXT
from podium_evals.tasks import GYM_KINDS

_Rows = Iterable[Mapping[str, Any]]

GYM = Provenance(
    source="https://github.com/open-thought/reasoning-gym-eval",
    revision="5f09fecc342a25d693895b7304a9dec43b47f436",
    licence="Apache-2.0",
    citation="Stojanovski et al. 2025, REASONING GYM: Reasoning Environments for Reinforcement Learning with "
    "Verifiable Rewards, arXiv:2505.24760",
)
HELD_BACK = "its kind is held back for a last test"
"""The reason why an answer is left out."""
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
    """.split()  # noqa: SIM905 - a list has a line for each
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
PRICED_MODELS = tuple(
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


def read_reasoning_gym(path: Path, level: str | None = None) -> Recordings:
    """Read `reasoning_gym_recorded.jsonl.gz`.

    The pools of the levels differ. If a question is in both levels, its first row in the file counts.
    """
    left_out = Counter[str]()

    def read(rows: _Rows) -> Iterator[Recording]:
        for row in rows:
            if level not in (None, row["level"]):
                continue
            if row["dataset"] not in GYM_KINDS:
                left_out[HELD_BACK] += len(row["answers"])
                continue
            question = gym_question(row["level"], row["dataset"], row["index"], row["question"])
            for worker, answers in row["answers"].items():
                yield Recording(question, worker, tuple(_gym_sample(*answer) for answer in answers))

    return Recordings(read(_rows(path)), GYM, left_out)


def gym_question(level: str, kind: str, index: int, text: str, expected: str | None = None) -> Question:
    """Return a question of Reasoning Gym."""
    name = f"reasoning_gym/{level}/{kind}/{index}"
    return Question(id=name, kind=kind, level=level, text=text, expected=expected)


def _gym_sample(text: str, score: float) -> Sample:
    """Return a sample. If the source lacks the answer, the packed text is `None` and the score 0 or 0.01."""
    is_missing = text == "None" and score <= 0.01
    return Sample(text="" if is_missing else text, score=score)


def read_mmlu_pro(path: Path) -> Recordings:
    """Read `mmlu_pro_recorded.jsonl.gz`."""
    read = (
        Recording(choice_question(row), worker, (choice(chosen, row["answer"]),))
        for row in _rows(path)
        for worker, chosen in row["pred"].items()
    )
    return Recordings(read, MMLU_PRO)


def choice_question(row: Mapping[str, Any]) -> Question:
    """Return a question of MMLU-Pro with its options.

    In the source, a question's id differs from model to model; therefore the id here is made of the content.
    Questions with the same text and other options share a split key.
    """
    kind, text = row["category"], row["question"]
    shown = with_options(text, row["options"])
    name = f"mmlu_pro/{kind}/{content_key(shown)[:12]}"
    return Question(id=name, kind=kind, text=shown, expected=row["answer"], split_key=content_key(text))


def choice(chosen: str | None, answer: str, usage: Usage | None = None) -> Sample:
    """Return a recorded choice. Without a letter it scores 0; the source's own script guesses one instead."""
    return Sample(text=chosen or "", score=float(chosen == answer), usage=usage)


def read_bfcl(path: Path) -> Recordings:
    """Read `bfcl_recorded.jsonl.gz`: scores, tokens and latency of tool calls, without the texts.

    An answer without token counts (a failed call) has no usage, so its worker has no cost.
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

    return Recordings(read(_rows(path)), BFCL, left_out)


def _call_sample(
    worker: str, score: float, read: int | None, written: int | None, seconds: float | None
) -> Sample:
    """Return a recorded call. Its text names the worker, as equal texts of two workers would agree."""
    usage = None if read is None or written is None else Usage(read, written)
    text = f"{NO_TEXT} {worker}: {'right' if score else 'wrong'}"
    return Sample(text=text, score=float(score), usage=usage, latency_s=seconds)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


EASY, HARD, MMLU = "reasoning-gym-easy", "reasoning-gym-hard", "mmlu-pro"
CALLS, CALLS_ONLY = "bfcl", "bfcl-without-relevance"
"""Tool calls, with and without the kind in which no function fits."""


@dataclass(frozen=True, slots=True)
class Public:
    """A public recording."""

    pools: Mapping[str, Sequence[str]]
    """The workers of its named pools. Each recording also has the pool `all`."""
    packed: str
    """The name of the packed file."""
    read: Callable[[Path], Recordings]


def _calls_only(path: Path) -> Recordings:
    return read_bfcl(path).where(lambda question: question.kind != RELEVANCE)


PUBLIC: Mapping[str, Public] = {
    **{
        f"reasoning-gym-{level}": Public(
            {"mid": MID}, "reasoning_gym_recorded.jsonl.gz", partial(read_reasoning_gym, level=level)
        )
        for level in ("easy", "hard")
    },
    MMLU: Public({"chat": CHAT_MODELS}, "mmlu_pro_recorded.jsonl.gz", read_mmlu_pro),
    CALLS: Public({"priced": PRICED_MODELS}, "bfcl_recorded.jsonl.gz", read_bfcl),
    CALLS_ONLY: Public({"priced": PRICED_MODELS}, "bfcl_recorded.jsonl.gz", _calls_only),
}


def read_public(recording: str, pool: str, folder: Path) -> Recordings:
    """Return the answers of a pool to those questions that all of its workers have answered.

    The folder has the file `<recording>.jsonl.gz`, as `python -m benchmarks.evidence.fetch` names it, or the
    packed file.
    """
    public = PUBLIC[recording]
    fetched, packed = folder / f"{recording}.jsonl.gz", folder / public.packed
    if fetched.is_file():
        found = read_recordings(fetched)
    elif packed.is_file():
        found = public.read(packed)
    else:
        raise ConfigError(f"{folder} has neither {fetched.name} nor {packed.name}")
    return with_prices(found.only(public.pools.get(pool, found.workers)))


def with_prices(recordings: Recordings) -> Recordings:
    """Return a recording with the known prices of its workers."""
    known = PriceTable.read(Path(__file__).with_name("prices.toml"))
    recordings.prices = PriceTable(price for price in known if price.worker in recordings.workers)
    return recordings
