"""The common parts of the recording of tool calls (Berkeley Function Calling Leaderboard, August 2024)."""

from podium.usage import Usage
from podium_evals.recorded.recordings import NO_TEXT, Provenance, Sample

KINDS = frozenset(
    """
    executable_multiple_function executable_parallel_function executable_simple java javascript
    multiple_function parallel_function parallel_multiple_function relevance simple
    """.split()  # noqa: SIM905 - a list has a line for each
)
"""The kinds that may be used. The other two kinds, and eight models, are held back for a last test."""
RELEVANCE = "relevance"
"""The kind in which no function fits. Whatever the grader cannot read as a call counts as right, so figures
say whether they have this kind."""

PROVENANCE = Provenance(
    source="https://github.com/HuanzhiMao/BFCL-Result",
    revision="b4adfc9",
    citation="Patil et al. 2025, The Berkeley Function Calling Leaderboard (BFCL), ICML 2025",
)
"""The repository states no licence; the questions are under Apache-2.0."""

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


def sample(worker: str, score: float, read: int | None, written: int | None, seconds: float | None) -> Sample:
    """Return a recorded call, whose text was not recorded.

    Args:
        worker: the name of the worker; equal texts of two workers would count as agreement.
        score: 1 if the call was right, else 0.
        read: the tokens of the prompt.
        written: the tokens of the answer.
        seconds: until the answer was complete.
    """
    usage = None if read is None or written is None else Usage(read, written)
    text = f"{NO_TEXT} {worker}: {'right' if score else 'wrong'}"
    return Sample(text=text, score=float(score), usage=usage, latency_s=seconds)
