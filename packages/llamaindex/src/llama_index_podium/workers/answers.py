"""The answer of an object that calls models itself: an agent, an engine or a workflow."""

from llama_index_podium.usage import Spent
from podium.errors import WorkerBroken
from podium.hosts.results import spent_completion
from podium.types import Completion
from podium.workers import Card


def completion_of(text: str, spent: Spent, card: Card) -> Completion:
    """Return the answer of such an object.

    Args:
        text: the answer.
        spent: the model calls behind it.
        card: the worker's card.

    Raises:
        WorkerBroken: the stream of a model broke off.
        AnswerRefused: the last model or its provider's filter refused to answer.
    """
    if spent.is_broken_off and not spent.ending.refusal:
        told = f"the stream of a model behind worker {card.name!r} ended with no finish_reason"
        raise WorkerBroken(told, maybe_paid=True)
    ending = spent.ending
    return spent_completion(
        text, spent.usage_at_end, card, finish_reason=ending.finish, refusal=ending.refusal
    )
