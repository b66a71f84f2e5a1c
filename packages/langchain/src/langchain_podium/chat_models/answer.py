"""What a run came to, as the message of a chat model: whole, or as the last chunk of one.

It knows no run that is under way, and nothing of callbacks.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

from langchain_podium.messages import read_calls, write_usage
from podium.errors import RunFailed
from podium.secrets import scrub_data
from podium.types import AnswerDelta, Outcome, Plan, Result
from podium.usage import Usage

_COUNTS: Final = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def message_of(result: Result, usage: Usage, facts: Mapping[str, Any]) -> AIMessage:
    """Return the answer as a message.

    Args:
        result: what the run came to.
        usage: the part of its tokens that the message is to report.
        facts: its `response_metadata`.
    """
    calls, broken = read_calls(result.tool_calls)
    return AIMessage(
        result.answer,
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=write_usage(usage),
        response_metadata=dict(facts),
    )


def last_chunk(result: Result, rest: str, usage: Usage, facts: Mapping[str, Any]) -> AIMessageChunk:
    """Return what a stream ends with: what of the text was not sent yet, the calls, and what became known."""
    calls = [
        tool_call_chunk(
            name=call["function"].get("name"),
            args=call["function"].get("arguments") or "{}",
            id=call.get("id"),
            index=index,
        )
        for index, call in enumerate(result.tool_calls)
    ]
    return AIMessageChunk(
        content=rest,
        tool_call_chunks=calls,
        usage_metadata=write_usage(usage),
        response_metadata=dict(facts),
        chunk_position="last",
    )


def facts_of(result: Result, model: str, turn: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a message's `response_metadata`: plain JSON, without what the steps wrote.

    Args:
        result: what the run came to.
        model: what the chat model is called.
        turn: what the next turn can go on from; `None` where it needs nothing.
    """
    cut = result.problem is not None and result.problem.code == "cut"
    plan = result.plans[-1] if result.plans else None
    told = {
        "run_id": result.run_id,
        "status": result.status,
        "problem": None if result.problem is None else asdict(result.problem),
        "plan": None if plan is None else replace(plan, query=()).to_json(),
        "workers": list(result.workers),
        "steps": [_step(outcome, _plans(result)[outcome.round]) for outcome in result.outcomes],
        "usage": write_usage(result.usage),
        "cost": result.cost,
        "seconds": result.seconds,
    }
    return {
        "model_name": model,
        "model_provider": "podium",
        "finish_reason": "tool_calls" if result.tool_calls else "length" if cut else "stop",
        "podium": scrub_data(told) | ({} if turn is None else {"turn": dict(turn)}),
    }


def unseen(total: Usage, seen: Usage) -> Usage:
    """Return what of a run's tokens nobody else has reported."""
    left = {name: max(0, getattr(total, name) - getattr(seen, name)) for name in _COUNTS}
    return replace(total, **left)


class Sent:
    """What of an answer was sent on; a step that is tried again goes on from there, if it writes the same."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._again: str | None = None
        """What the attempt at hand has written, where another wrote what was sent."""
        self._attempt: tuple[int | None, int | None, int | None] | None = None

    def more(self, event: AnswerDelta) -> str:
        """Return what of a piece is new; nothing, once it contradicts what was sent."""
        attempt = (event.round, event.step, event.attempt)
        if self._attempt not in (None, attempt):
            self._again = ""
        self._attempt = attempt
        if self._again is None:
            self._pieces.append(event.text)
            return event.text
        self._again += event.text
        sent = "".join(self._pieces)
        if not self._again.startswith(sent):
            return ""
        self._pieces, new, self._again = [self._again], self._again[len(sent) :], None
        return new

    def rest(self, result: Result) -> str:
        """Return what of the answer was not sent yet.

        Raises:
            RunFailed: it is another than what was sent.
        """
        sent = "".join(self._pieces)
        if not result.answer.startswith(sent):
            raise failed("the answer is another than what was streamed of it: see the result", result)
        return result.answer[len(sent) :]


def failed(told: str, result: Result) -> RunFailed:
    """Return what is raised for a result that no caller of a chat model can take."""
    error = RunFailed(told)
    error.result = result
    return error


def _plans(result: Result) -> dict[int, Plan | None]:
    return {current.number: current.plan for current in result.rounds}


def _step(outcome: Outcome, plan: Plan | None) -> dict[str, Any]:
    step = plan.steps[outcome.step] if plan is not None and outcome.step < len(plan.steps) else None
    return {
        "round": outcome.round,
        "step": outcome.step,
        "worker": outcome.worker,
        "subtask": "" if step is None else step.subtask,
        "access": [] if step is None else list(step.access),
        "status": outcome.status,
        "problem": None if outcome.problem is None else asdict(outcome.problem),
        "usage": write_usage(outcome.usage),
        "cost": outcome.cost,
        "seconds": outcome.seconds,
        "attempts": outcome.attempts,
        "reused": outcome.reused,
    }
