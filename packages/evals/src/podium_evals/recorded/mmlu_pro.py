"""The common parts of all recordings of MMLU-Pro: how questions are written, matched and graded."""

from collections.abc import Sequence

from podium_evals.recorded.question import Question, content_key, with_options
from podium_evals.recorded.recordings import Provenance, Sample

PROVENANCE = Provenance(
    source="https://github.com/TIGER-AI-Lab/MMLU-Pro",
    revision="f418b116db00b065c2aea046518d8fcf74d39872",
    licence="Apache-2.0",
    citation="Wang et al. 2024, MMLU-Pro: A More Robust and Challenging Multi-Task Language Understanding "
    "Benchmark, arXiv:2406.01574",
)

CHAT_MODELS = (
    "DeepSeek-Coder-V2",
    "Meta-Llama-3_1-70B-Instruct",
    "Meta-Llama-3_1-8B-Instruct",
    "Mistral-7B-Instruct-v0.1",
    "Mistral-7B-Instruct-v0.2",
    "Mixtral-8x7B-Instruct-v0.1",
    "Phi-3-mini-4k-instruct",
    "Qwen1.5-72B-Chat",
    "Qwen1.5-7B-Chat",
    "Yi-6b-Chat",
    "c4ai-command-r-v01",
    "gemini-1.5-flash-002",
    "gemini-1.5-pro-002",
    "jamba-1.5-large",
    "mathstral-7B",
)
"""The recorded models that are tuned to follow instructions. All other recorded models are base models."""


def question(category: str, text: str, options: Sequence[str], answer: str) -> Question:
    """Return a question with its options.

    In the source, a question's id differs from model to model; therefore the id here is made of the content.
    Questions with the same text and other options share a split key.

    Args:
        category: the category, which becomes the kind of the question.
        text: the question without its options.
        options: the options, in the order of their letters.
        answer: the letter of the right option.
    """
    shown = with_options(text, options)
    name = f"mmlu_pro/{category}/{content_key(shown)[:12]}"
    return Question(id=name, kind=category, text=shown, expected=answer, split_key=content_key(text))


def sample(chosen: str | None, answer: str) -> Sample:
    """Return a recorded choice.

    Args:
        chosen: the letter that the source found in the model's text. `None` if the source found no letter;
            such an answer scores 0. (The source's own script guesses a letter instead.)
        answer: the right letter.
    """
    return Sample(text=chosen or "", score=float(chosen == answer))
