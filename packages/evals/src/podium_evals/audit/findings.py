"""Finds failures and loops in a query, with the cost of each."""

from collections.abc import Iterator
from dataclasses import dataclass

from podium_evals.audit.failures import is_rate_limit
from podium_evals.audit.loops import growing, turns_beyond
from podium_evals.audit.query import Call, Query, by_prompt

KINDS = {
    "failed_call": "Failed calls",
    "rate_limit": "Failed calls: rate limits",
    "retry": "Calls repeated after a failure",
    "repeat": "Same prompt repeated in one query",
    "growing": "Calls that send their history again",
    "growing_by_tokens": "Calls whose input grows as if they sent their history again (no prompts in "
    "the export)",
    "many_turns": "Agents beyond the limit of turns",
    "unended": "Steps without an end",
    "cut": "Answers cut at a token limit",
    "empty": "Empty answers",
    "refusal": "Refusals",
    "tool_error": "Tool errors",
}
"""The kinds of findings, in the order of reports."""
WITHOUT_COST = ("retry", "tool_error")
"""Kinds without a cost, or whose cost is not wasted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A failure or a loop in a query."""

    kind: str
    """A key of `KINDS`."""
    span: str
    """The id of the span; for several calls, the id of the first call's span."""
    costs: tuple[tuple[str, float | None], ...] = ()
    """The calls. Each has the cost of its failed or repeated part, in USD; `None` if the cost is unknown."""


def findings(query: Query, turns: int) -> Iterator[Finding]:
    """Yield the failures and loops of a query.

    Args:
        query: the query.
        turns: the limit of turns; an agent with more turns is reported as a loop.
    """
    for call in query.calls:
        yield from _of_call(call)
    yield from _repeats(query)
    for chain in growing(query):
        kind = "growing" if chain.is_certain else "growing_by_tokens"
        for number in range(2, len(chain.calls)):
            resent = chain.calls[number].span.id
            yield Finding(kind, resent, ((resent, chain.resent[number]),))
    for calls in turns_beyond(query, turns):
        yield Finding("many_turns", calls[0].span.id, tuple((call.span.id, call.cost) for call in calls))
    called = {call.span.id for call in query.calls}
    for span in query.spans:
        if span.is_open and span.id not in called:
            yield Finding("unended", span.id)
        if span.kind == "tool" and span.error:
            yield Finding("tool_error", span.id)


def repeats(query: Query) -> Iterator[tuple[Call, bool]]:
    """Yield each call whose prompt was answered before, and whether it got the same answer before."""
    for calls in by_prompt(query.calls).values():
        answers: list[str] = []
        for call in calls:
            if call.span.error or call.span.is_open:
                continue
            if answers:
                yield call, bool(call.span.answer) and call.span.answer in answers
            answers.append(call.span.answer)


def _of_call(call: Call) -> Iterator[Finding]:
    span, cost = call.span, ((call.span.id, call.cost),)
    if span.error:
        yield Finding("failed_call", span.id, cost)
        if is_rate_limit(span.error, span.error_text):
            yield Finding("rate_limit", span.id, cost)
    elif span.is_open:
        yield Finding("unended", span.id, cost)
    if span.finish == "length":
        yield Finding("cut", span.id, cost)
    elif span.is_empty and not span.error and not span.is_open:
        yield Finding("empty", span.id, cost)
    if span.is_refusal:
        yield Finding("refusal", span.id, cost)


def _repeats(query: Query) -> Iterator[Finding]:
    for call, _ in repeats(query):
        yield Finding("repeat", call.span.id, ((call.span.id, call.cost),))
    for calls in by_prompt(query.calls).values():
        has_failed = False
        for call in calls:
            if has_failed:
                yield Finding("retry", call.span.id)
            has_failed = bool(call.span.error)
