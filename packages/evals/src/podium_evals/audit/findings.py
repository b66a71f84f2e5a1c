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
    is_certain: bool
    """Whether the chain is known from prompts; otherwise it is guessed from numbers of tokens."""


@lru_cache(maxsize=1)  # findings and estimates of a query need the same chains
def growing(query: Query) -> tuple[Chain, ...]:
    """Return the longest chains of at least three calls with growing prompts."""
    calls = [call for call in query.calls if not call.span.error]
    continued = {call.span.continues for call in calls}
    told: list[Call] = []
    others: list[Call] = []
    for call in calls:
        is_told = call.span.prompt or call.span.continues or call.span.id in continued
        (told if is_told else others).append(call)
    certain, likely = _by_prompts(told), _by_tokens(others)
    return (
        *(Chain(tuple(found), _resent(query, found), is_certain=True) for found in certain),
        *(Chain(tuple(found), _resent(query, found), is_certain=False) for found in likely),
    )


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


def _by_tokens(calls: Sequence[Call]) -> Iterator[list[Call]]:
    """Yield chains by tokens: each input has at least the tokens of the input and output before."""
    groups: dict[tuple[str, str, str], list[Call]] = {}
    for call in calls:
        if call.span.usage is not None and call.span.started is not None:
            groups.setdefault((call.agent, call.step, call.span.model), []).append(call)
    for group in groups.values():
        chain = group[:1]
        for previous, call in pairwise(group):
            spent = (
                previous.usage.input_tokens + previous.usage.output_tokens - previous.usage.reasoning_tokens
            )
            if call.usage.input_tokens > previous.usage.input_tokens and call.usage.input_tokens >= spent:
                chain.append(call)
                continue
            if len(chain) >= _LEAST:
                yield chain
            chain = [call]
        if len(chain) >= _LEAST:
            yield chain


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
    """Yield the failures and loops of a query."""
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
