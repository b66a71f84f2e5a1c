"""Finds failures and loops in a query, with the cost of each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from podium_evals.audit.queries import Call, Query, by_prompt, without
from podium_evals.audit.texts import is_rate_limit

_LEAST = 3
"""Minimum length of a chain of growing prompts that counts as a loop. Two calls are a single use of a
tool."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of calls. The prompt of each call begins with the prompt of the call before."""

    calls: tuple[Call, ...]
    resent: tuple[float | None, ...]
    """For each call, the cost in USD of the history that it sends again. This is the previous prompt without
    the chain's first prompt. `None` if the cost is unknown."""


@lru_cache(maxsize=1)  # findings and turns of a query need the same chains
def growing(query: Query) -> tuple[Chain, ...]:
    """Return the longest chains of at least three calls with growing prompts."""
    calls = [call for call in query.calls if not call.span.error]
    continued = {call.span.continues for call in calls}
    told = [call for call in calls if call.span.prompt or call.span.continues or call.span.id in continued]
    return tuple(Chain(tuple(found), _resent(query, found)) for found in _by_prompts(told))


def _resent(query: Query, calls: Sequence[Call]) -> tuple[float | None, ...]:
    first = calls[0].usage.input_tokens
    costs: list[float | None] = [0.0]
    for previous, call in pairwise(calls):
        history = max(0, min(previous.usage.input_tokens, call.usage.input_tokens) - first)
        cached = max(0, min(call.usage.cached_tokens - first, history))
        costs.append(_part_cost(query, call, history, cached) if history else 0.0)
    return tuple(costs)


def _part_cost(query: Query, call: Call, history: int, cached: int) -> float | None:
    """Return the cost of a part of a call's input; some of its tokens may be from a cache."""
    if call.cost is None or call.cost_source != "prices":
        return None
    rest = query.cost_of(call, without(call.usage, history, cached), call.span.cache_writes)
    return None if rest is None else max(0.0, call.cost - rest)


def turns_beyond(query: Query, most: int) -> Iterator[tuple[Call, ...]]:
    """Yield the calls beyond the limit of turns, for each agent that exceeds the limit."""
    agents: dict[tuple[str, str], list[Call]] = {}
    for call in query.calls:
        if call.agent and not call.span.error:
            agents.setdefault((call.agent, call.step), []).append(call)
    found = [tuple(_in_turn(calls)) for calls in agents.values()]
    told = {call.span.id for calls in found for call in calls if len(calls) > most}
    found += [chain.calls for chain in growing(query) if chain.calls[-1].span.id not in told]
    yield from (calls[most:] for calls in found if len(calls) > most)


def _by_prompts(calls: Sequence[Call]) -> Iterator[list[Call]]:
    """Yield chains by prompts: each prompt begins with the prompt before, or continues its conversation."""
    by_id = {call.span.id: call for call in calls}
    calls = sorted(calls, key=lambda call: len(call.span.prompt))
    ends: dict[int, Call] = {}
    before: dict[str, Call] = {}
    for call in calls:
        found, at = None, hash(call.span.model)
        for message in call.span.messages[:-1]:
            at = hash((at, message))
            found = ends.get(at, found)
        if (previous := by_id.get(call.span.continues, found)) is not None and previous is not call:
            before[call.span.id] = previous
        if call.span.messages:
            ends[hash((at, call.span.messages[-1]))] = call
    yield from _chains(calls, before)


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
        if len(chain) >= _LEAST:
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
    "growing": "Calls that send their history again",
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
    """The calls. Each has the cost of its failed or repeated part, in USD; `None` if the cost is unknown."""


def findings(query: Query, turns: int) -> Iterator[Finding]:
    """Yield the failures and loops of a query."""
    for call in query.calls:
        for kind in _kinds(call):
            yield Finding(kind, call.span.id, ((call.span.id, call.cost),))
    for calls in by_prompt(query.calls).values():
        answered = [call for call in calls if not call.span.error and not call.span.is_open]
        for call in answered[1:]:
            yield Finding("repeat", call.span.id, ((call.span.id, call.cost),))
    for chain in growing(query):
        for call, resent in zip(chain.calls[2:], chain.resent[2:], strict=True):
            yield Finding("growing", call.span.id, ((call.span.id, resent),))
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
