"""Compare the answers of pairs, with a worker that is not told the sides, or with a scorer."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from inspect import isawaitable
from math import isfinite
from random import Random

import anyio

from podium.errors import PodiumError, WorkerFailed
from podium.journal import Cache
from podium.journal.cache import answer_key
from podium.prompts.prompt import fill, mark_of
from podium.secrets import Boundary
from podium.types import Completion, Message, Sampling
from podium.types.outcome import total_cost
from podium.usage import Usage
from podium.workers import Request, Worker, complete
from podium_shadow.pairs import Pair
from podium_shadow.statistics import Estimate, Share, paired_means, share

Scorer = Callable[[str, str], float | Awaitable[float]]
"""Returns the quality of an answer to a question; higher is better."""

JUDGE_SECONDS = 120.0
"""Timeout of a judge's call, in seconds."""
_AT_ONCE = 4
_SAMPLING = Sampling(temperature=0.0)
_VERDICT = re.compile(r"[\s*_#>\"'`(\[]*(a|b|tie)\b", re.IGNORECASE)
_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning)>.*?</\1>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdicts of a judge."""

    judge: str
    better: Share
    """Pairs in which the candidate's answer is better."""
    worse: Share
    ties: Share
    """Pairs without a better answer. Equal answers are ties, without a call."""
    failed: int
    """Pairs for which the judge's call returned no verdict."""
    unjudged: int
    """Pairs without a verdict: those whose call failed, and those for which no call was left."""
    calls: int
    known: int
    """Verdicts from the cache of an earlier report, without a call."""
    usage: Usage
    cost: float | None
    """USD; `None` means unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Means of both sides over the pairs in which both values are known."""

    of: int
    primary: float | None
    candidate: float | None
    difference: Estimate
    """The mean of the candidate's value minus the primary's."""
    ratio: Estimate
    """The candidate's sum divided by the primary's."""


def means(pairs: Sequence[tuple[float, float]], confidence: float, seed: int) -> Means:
    """Return the means of pairs (primary, candidate)."""
    difference, ratio = paired_means(pairs, confidence, seed)
    first, second = [sum(pair[side] for pair in pairs) / len(pairs) if pairs else None for side in (0, 1)]
    return Means(of=len(pairs), primary=first, candidate=second, difference=difference, ratio=ratio)


class Judge:
    """Compares answers with a worker.

    The order of the two answers is derived from the pair's id, so that a judge that prefers the first answer
    does not favour one side.
    """

    def __init__(self, worker: Worker, *, calls: int = 100, cache: Cache | None = None) -> None:
        self._worker = worker
        self._left = calls
        self._cache = cache

    async def judge(self, pairs: Sequence[Pair], confidence: float, seed: int) -> Judged:
        """Judge pairs in a random order, set by the seed, until no call is left.

        Pairs with equal answers are ties, without a call.
        """
        bench = _Bench(self._worker, self._cache)
        async with self._worker, anyio.create_task_group() as tasks:
            slots = anyio.CapacityLimiter(min(_AT_ONCE, self._worker.card.concurrency or _AT_ONCE))
            for pair in Random(seed).sample(pairs, k=len(pairs)):  # noqa: S311 - the order of a report
                if pair.is_equal:
                    bench.verdicts.append("tie")
                elif self._left:
                    self._left -= 1
                    tasks.start_soon(bench.hear, pair, slots)
                else:
                    break
        verdicts = Counter(bench.verdicts)
        return Judged(
            judge=self._worker.card.name,
            better=share(verdicts["candidate"], verdicts.total(), confidence),
            worse=share(verdicts["primary"], verdicts.total(), confidence),
            ties=share(verdicts["tie"], verdicts.total(), confidence),
            unjudged=len(pairs) - verdicts.total(),
            failed=bench.failed,
            calls=bench.calls,
            known=bench.known,
            usage=bench.usage,
            cost=bench.cost,
        )


class _Bench:
    """The calls and verdicts of one report."""

    def __init__(self, worker: Worker, cache: Cache | None) -> None:
        self._worker = worker
        self._cache = cache
        self.verdicts: list[str] = []
        self.calls = 0
        self.known = 0
        self.failed = 0
        self.usage = Usage()
        self.cost: float | None = 0.0

    async def hear(self, pair: Pair, slots: anyio.CapacityLimiter) -> None:
        """Judge a pair, and add the verdict if there is one."""
        is_first = sha256(pair.pair_id.encode()).digest()[0] < 128
        answers = pair.candidate.answer, pair.primary.answer
        a, b = answers if is_first else answers[::-1]
        mark = mark_of(pair.question, a, b)
        asked = fill("compare", question=pair.question, a=a, b=b, mark=mark)
        async with slots:
            completion = await self._asked(asked)
        text = "" if completion is None else _THOUGHT.sub("", completion.text)
        if (verdict := _VERDICT.match(text)) is None:
            self.failed += 1
        else:
            said = verdict[1].lower()
            self.verdicts.append(
                "tie" if said == "tie" else "candidate" if (said == "a") == is_first else "primary"
            )

    async def _asked(self, asked: str) -> Completion | None:
        worker, message, key = self._worker, Message("user", asked), None
        if self._cache is not None and worker.identity is not None:
            key = answer_key(worker.identity, (message,), _SAMPLING)
            if (known := await self._cache.get(key)) is not None:
                self.known += 1
                return known
        self.calls += 1
        end = anyio.current_time() + JUDGE_SECONDS
        request = Request(messages=(message,), sampling=_SAMPLING, deadline=end)
        try:
            with (
                anyio.fail_after(JUDGE_SECONDS),
                Boundary(f"judge {worker.card.name!r}", WorkerFailed, is_library=True),
            ):
                completion = await complete(worker, request)
        except (PodiumError, TimeoutError):
            self.cost = None  # it may be paid for
            return None
        self.usage += completion.usage
        price = worker.card.price
        paid = price.cost(completion.usage) if completion.cost is None and price else completion.cost
        self.cost = total_cost([self.cost, paid])
        if key is not None and self._cache is not None:
            await self._cache.put(key, completion)
        return completion


async def score(pairs: Sequence[Pair], scorer: Scorer, confidence: float, seed: int) -> Means:
    """Score both answers of each pair."""
    scores = [
        (await _score(scorer, pair, pair.primary.answer), await _score(scorer, pair, pair.candidate.answer))
        for pair in pairs
    ]
    return means(scores, confidence, seed)


async def _score(scorer: Scorer, pair: Pair, answer: str) -> float:
    with Boundary("the scorer", WorkerFailed, is_library=True):
        returned = scorer(pair.question, answer)
        value = float(await returned if isawaitable(returned) else returned)
        if not isfinite(value):
            raise WorkerFailed(f"the scorer returned {value} for pair {pair.pair_id}: return a number")
    return value
