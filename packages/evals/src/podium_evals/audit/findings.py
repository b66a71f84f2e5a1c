"""Finds failures and loops in a query, with the cost of each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from podium_evals.audit.queries import Call, Query
from podium_evals.audit.texts import is_rate_limit


def growing(query: Query) -> Iterator[list[Call]]:
    """Yield the longest chains of calls in which each prompt begins with the prompt before.

    A response that continues another one is in its chain, because a server adds the history.
    """
    calls = [call for call in query.calls if not call.span.error]
    continued = {call.span.continues for call in calls}
    told = [call for call in calls if call.span.prompt or call.span.continues or call.span.id in continued]
    by_id = {call.span.id: call for call in told}
    told.sort(key=lambda call: len(call.span.prompt))
    ends: dict[int, Call] = {}
    before: dict[str, Call] = {}
    for call in told:
        found, at = None, hash(call.span.model)
        for message in call.span.messages[:-1]:
            at = hash((at, message))
            found = ends.get(at, found)
        if (previous := by_id.get(call.span.continues, found)) is not None and previous is not call:
            before[call.span.id] = previous
        if call.span.messages:
            ends[hash((at, call.span.messages[-1]))] = call
    yield from _chains(told, before)


def turns_beyond(query: Query, most: int) -> Iterator[tuple[Call, ...]]:
    """Yield the calls beyond the limit of turns, for each agent that exceeds the limit."""
    agents: dict[tuple[str, str], list[Call]] = {}
    for call in query.calls:
        if call.agent and not call.span.error:
            agents.setdefault((call.agent, call.step), []).append(call)
    found = [tuple(_in_turn(calls)) for calls in agents.values()]
    told = {call.span.id for calls in found for call in calls if len(calls) > most}
    found += [tuple(calls) for calls in growing(query) if calls[-1].span.id not in told]
    yield from (calls[most:] for calls in found if len(calls) > most)


def _chains(calls: Sequence[Call], before: Mapping[str, Call]) -> Iterator[list[Call]]:
    """Yield the chains, the longest prompts first. Only the first call of a chain may be in others."""
    continued = {call.span.id for call in before.values()}
    taken = set[str]()
    for call in reversed(calls):
        if call.span.id in continued:
            continue
        chain, here = [call], {call.span.id}
        while (earlier := before.get(chain[-1].span.id)) is not None:
            if earlier.span.id in taken or earlier.span.id in here:  # a hostile export may have cycles
                break
            chain.append(earlier)
            here.add(earlier.span.id)
        taken |= here - {chain[-1].span.id}
        yield chain[::-1]


def _in_turn(calls: Sequence[Call]) -> Iterator[Call]:
    """Yield calls that do not overlap: each starts after the end of the call before."""
    ended = float("-inf")
    for call in calls:
        started = call.span.started
        if started is not None and started >= ended:
            yield call
            ended = started if call.span.ended is None else call.span.ended


KINDS = {
    "failed_call": "Failed calls",
    "rate_limit": "Failed calls: rate limits",
    "repeat": "Same prompt repeated in one query",
    "many_turns": "Agents beyond the limit of turns",
    "cut": "Answers cut at a token limit",
    "empty": "Empty answers",
    "refusal": "Refusals",
}
"""The kinds of findings, in the order of reports."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A failure or a loop in a query."""

    kind: str
    """A key of `KINDS`."""
    span: str
    """The id of the span; for several calls, the id of the first call's span."""
    costs: tuple[tuple[str, float | None], ...] = ()
    """The calls, each with its cost in USD; `None` if it is unknown."""


def findings(query: Query, turns: int) -> Iterator[Finding]:
    """Yield the failures and loops of a query."""
    for call in query.calls:
        for kind in _kinds(call):
            yield Finding(kind, call.span.id, ((call.span.id, call.cost),))
    asked = set[tuple[str, str]]()
    for call in query.calls:
        span = call.span
        if span.prompt and not span.error and not span.is_open:
            if (span.model, span.prompt) in asked:
                yield Finding("repeat", span.id, ((span.id, call.cost),))
            asked.add((span.model, span.prompt))
    for further in turns_beyond(query, turns):
        yield Finding("many_turns", further[0].span.id, tuple((call.span.id, call.cost) for call in further))


def _kinds(call: Call) -> Iterator[str]:
    span = call.span
    if span.error:
        yield "failed_call"
        if is_rate_limit(span.error, span.error_text):
            yield "rate_limit"
    if span.finish == "length":
        yield "cut"
    elif span.is_empty and not span.error and not span.is_open:
        yield "empty"
    if span.is_refusal:
        yield "refusal"
