"""What the turn after a call of tools goes on from: the plan, and what its steps came to.

It travels with the message that holds the calls, wherever a framework lets a message carry
more than its text, and is found again with it. It knows no framework and no conductor.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from podium.errors import ConfigError, JournalBroken
from podium.journal.codec import decode, encode
from podium.resume.bills import unbilled
from podium.resume.paid_results import PaidResults
from podium.secrets import scrub
from podium.types.events import ApprovalAsked, ApprovalGiven, Event, PlanReady, RunStarted, StepEnded
from podium.types.messages import Message

_log = logging.getLogger(__name__)
KEPT: Final = (RunStarted, PlanReady, ApprovalAsked, ApprovalGiven, StepEnded)
"""The events that tell of it."""
_OF_ROUND: Final = (PlanReady, ApprovalAsked, ApprovalGiven)


def turn_of(events: Iterable[Event], query: Sequence[Message]) -> dict[str, Any]:
    """Write what the next turn can go on from as plain JSON: the last plan, and all that steps came to.

    Args:
        events: the run's.
        query: the conversation up to its question, which the plan is for.
    """
    kept: list[Event] = []
    for event in events:
        if isinstance(event, RunStarted):
            kept = [replace(event, query=(), tool_messages=(), tools=None)]
        elif isinstance(event, PlanReady) and event.plan.steps:
            kept = [one for one in kept if not isinstance(one, _OF_ROUND)]
            kept.append(replace(event, round=1))
        elif isinstance(event, ApprovalAsked | ApprovalGiven):
            kept.append(replace(event, round=1))
        elif isinstance(event, StepEnded) and event.key and event.outcome.status == "ok":
            kept.append(event)
    return {"asked": _hash(query), "records": [scrub(encode(event)) for event in kept]}


def recall_turn(turn: object, query: Sequence[Message], workers: Sequence[str]) -> PaidResults | None:
    """Return what the turn before came to; `None` where that is not told, or was of another question.

    Args:
        turn: what `turn_of` wrote, as it was found again; anything else tells nothing.
        query: the conversation up to its question.
        workers: the names of the pool's workers.
    """
    if not isinstance(turn, dict) or turn.get("asked") != _hash(query):
        return None
    try:
        return unbilled([decode(record) for record in turn["records"]], workers)
    except (ConfigError, JournalBroken, LookupError, TypeError):
        _log.warning("the plan of the turn before is of no use here: the turn is planned anew", exc_info=True)
        return None


def _hash(query: Sequence[Message]) -> str:
    text = json.dumps([message.to_wire() for message in query], sort_keys=True)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
