"""Asks workers questions within a budget, and records their answers. A stopped recording continues.

A worker is shown only the question. Failed calls are retried according to `podium.execution.Retry`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import inf, isinf
from time import monotonic
from typing import Any, NamedTuple

import anyio

from podium import Conductor
from podium.budget import Limits, Spend
from podium.budget.ledger import Ledger, Reservation, charge, charged_by
from podium.budget.limits import NOTHING
from podium.cli.screen import counted, money
from podium.errors import AnswerEmpty, AnswerRefused, ConfigError, LimitExceeded, WorkerError, WorkerTimeout
from podium.execution import Retry
from podium.types import Completion, Message, Sampling
from podium.types.messages import usage_or_estimate
from podium.usage import Usage
from podium.workers import Pool, Request, Worker, complete
from podium_evals.errors import first_failure
from podium_evals.grading import Grader, GraderOf, grade, grader_of
from podium_evals.recorded import DatedPrice, Sample
from podium_evals.recording.files import GrowingFile, QuestionRow


class Call(NamedTuple):
    """An answer to ask for."""

    row: QuestionRow
    worker: Worker
    number: int
    """Number of the sample, from 0."""


@dataclass(slots=True)
class Summary:
    """The counts and the usage of a recording."""

    recorded: int = 0
    """Number of answers that were recorded."""
    already: int = 0
    """Number of answers that were in the file before."""
    failed: Counter[str] = field(default_factory=Counter)
    """Number of answers that are missing because calls failed, by the code of the error."""
    left: int = 0
    """Number of answers that were not asked for, because the budget was used up."""
    stopped: str = ""
    """The limit that was reached; empty if no limit was reached."""
    spent: Spend = NOTHING
    """The usage of all calls, including failed calls."""


class Recorder:
    """Asks each worker each question as often as `samples` says, and records the answers.

    Answers that are in the file are not asked for again. A refusal is recorded as an empty answer, too.

    Args:
        file: the recording, entered.
        workers: the workers to ask.
        limits: `calls`, `cost`, `input_tokens` and `output_tokens` limit all calls of this recorder together;
            `attempt_seconds` limits each call. A call is made only if its worst case fits.
        samples: number of answers of each worker to each question.
        at_once: maximum number of calls at the same time. The `concurrency` of a card also limits its worker.
        grader: a grader, or a function that chooses the grader of each row. With a grader, only the final
            answer and its score are recorded. `None` records the whole text without a score.
        retry: which failed calls are retried; fallbacks do not apply.

    Raises:
        ConfigError: `samples` or `at_once` is below 1.
    """

    def __init__(  # noqa: PLR0913 - all but two have defaults
        self,
        file: GrowingFile,
        workers: Sequence[Worker],
        *,
        limits: Limits | None = None,
        samples: int = 1,
        at_once: int = 8,
        grader: Grader | GraderOf | None = None,
        retry: Retry | None = None,
    ) -> None:
        if samples < 1 or at_once < 1:
            raise ConfigError(f"samples is {samples!r} and at_once {at_once!r}: both must be 1 or more")
        self._file = file
        self._pool = Pool(workers)
        self._limits = limits or Limits()
        self._samples, self._at_once = samples, at_once
        self._grader = grader_of(grader)
        self._retry = retry or Retry()
        self._slots = {
            worker.card.name: anyio.CapacityLimiter(worker.card.concurrency or at_once) for worker in workers
        }
        self._ledger = Ledger(self._limits, deadline=inf)
        self._summary = Summary()

    async def record(self, rows: Sequence[QuestionRow]) -> Summary:
        """Ask for the answers that are missing in the file.

        Returns:
            The summary over all calls of this method.

        Raises:
            ConfigError: a question cannot be graded, or a worker is a conductor. Most graders find this
                before the first call, by grading an empty answer.
            RecordingInvalid: the file cannot be written.
        """
        for worker in self._pool:
            if isinstance(worker, Conductor):
                told = "its runs make many calls, which this budget cannot limit"
                raise ConfigError(f"{worker.card.name!r} is a conductor and cannot be recorded: {told}")
        calls = self._missing(rows)
        self._summary.already += len(rows) * len(self._pool) * self._samples - len(calls)
        for row in {id(call.row): call.row for call in calls}.values():  # before anything is paid
            if (grader := self._grader(row.row)) is not None:
                await grade(grader, row.row, "")
        for worker in self._pool:
            await self._record_price(worker)
        done = self._summary.recorded + self._summary.failed.total()
        left = iter(calls)

        async def work() -> None:
            for call in left:
                async with self._slots[call.worker.card.name]:
                    await self._answer(call)
                if self._summary.stopped:
                    return

        with first_failure():
            async with self._pool, anyio.create_task_group() as group:
                for _ in range(self._at_once):
                    group.start_soon(work)
        done = self._summary.recorded + self._summary.failed.total() - done
        self._summary.left += len(calls) - done
        self._summary.spent = self._ledger.spent
        return self._summary

    async def _record_price(self, worker: Worker) -> None:
        if (price := worker.card.price) is not None:
            source = worker.card.price_source or "the worker's card"
            dated = DatedPrice(worker=worker.card.name, as_of=_today(), price=price, source=source)
            await self._file.append_price(dated)

    def forecast(self, rows: Sequence[QuestionRow]) -> str:
        """Return for people how many answers are missing, and the most that they can cost."""
        calls = self._missing(rows)
        if not calls:
            return "all answers are recorded"
        most = self._most(calls)
        told = "unknown, because a price is unknown" if most is None else money(most)
        return f"{counted(len(calls), 'answer')} to ask for. Maximum cost, without repeated calls: {told}"

    def _most(self, calls: Iterable[Call]) -> float | None:
        """Return the cost in USD if each answer is as long as allowed and no call is repeated."""
        costs = []
        for call in calls:
            worst = call.worker.worst_case(self._request(call), self._limits.answer_tokens)
            if worst is None or (worst.cost is None and call.worker.uses_tokens):
                return None
            costs.append(worst.cost or 0.0)
        return sum(costs)

    def _missing(self, rows: Sequence[QuestionRow]) -> list[Call]:
        return [
            Call(row, worker, number)
            for row in rows
            for worker in self._pool
            for number in range(self._file.samples[row.question.key, worker.card.name], self._samples)
        ]

    async def _answer(self, call: Call) -> None:
        """Ask until there is an answer, or no further call is allowed."""
        seed = f"{call.row.question.key}/{call.worker.card.name}/{call.number}"
        for failures in range(1, self._retry.attempts + 1):
            try:
                sample = await self._ask(call)
            except LimitExceeded as limit:
                self._summary.stopped = str(limit)
                return
            except WorkerError as error:
                wait, _ = self._retry.wait_after(error, failures, seed, inf)
                if isinf(wait) or failures == self._retry.attempts:
                    self._summary.failed[error.code] += 1
                    return
                await anyio.sleep(wait)
            else:
                await self._file.append(call.row.question, call.worker.card.name, sample)
                self._summary.recorded += 1
                return

    async def _ask(self, call: Call) -> Sample:
        """Make one call, and add its usage to the ledger."""
        request = self._request(call)
        reservation = await self._reserve(call.worker.worst_case(request, self._limits.answer_tokens))
        reserved = reservation.amount
        spent = charge(reserved, Usage(), None, "reservation")  # the usage of a call whose end is unknown
        began = monotonic()
        try:
            with anyio.fail_after(self._limits.attempt_seconds):
                completion = await complete(call.worker, request)
        except TimeoutError as error:
            told = f"{call.worker.card.name!r} did not answer within {self._limits.attempt_seconds:g} s"
            raise WorkerTimeout(told, maybe_paid=True) from error
        except (AnswerRefused, AnswerEmpty) as error:
            spent = _spent(reserved, error, call.worker)
            latency = monotonic() - began
            return Sample(text="", score=0.0, usage=error.usage, latency_s=latency, asked_on=_today())
        except WorkerError as error:
            spent = _spent(reserved, error, call.worker)
            raise
        else:
            latency, usage = monotonic() - began, _usage(call.worker, request, completion)
            cost = _cost(call.worker, usage) if completion.cost is None else completion.cost
            spent = charge(reserved, usage, cost, charged_by(usage))
            return await self._graded(call, completion.text, usage, latency)
        finally:
            self._ledger.settle(reservation, spent)

    def _request(self, call: Call) -> Request:
        bounded = call.worker.max_tokens is None and self._ledger.limits_any("cost", "output_tokens")
        return Request(
            messages=(Message("user", call.row.question.text),),
            sampling=Sampling(max_tokens=self._limits.answer_tokens if bounded else None),
            deadline=anyio.current_time() + self._limits.attempt_seconds,
        )

    async def _reserve(self, worst: Spend | None) -> Reservation:
        while True:
            try:
                return self._ledger.reserve(worst)
            except LimitExceeded:
                if not await self._ledger.freed():
                    raise

    async def _graded(self, call: Call, text: str, usage: Usage, latency_s: float) -> Sample:
        facts: dict[str, Any] = {"usage": usage, "latency_s": latency_s, "asked_on": _today()}
        grader = self._grader(call.row.row)
        if grader is None:
            return Sample(text=text, **facts)
        final, score = await grade(grader, call.row.row, text)
        return Sample(text=final, score=score, **facts)


def _today() -> date:
    return datetime.now(UTC).date()


def _usage(worker: Worker, request: Request, completion: Completion) -> Usage:
    if not (worker.uses_tokens and completion.uses_tokens):
        return Usage()
    most = request.sampling.max_tokens or worker.max_tokens or 0
    return usage_or_estimate(completion.usage, request.messages, completion.text, most=most)


def _cost(worker: Worker, usage: Usage | None) -> float | None:
    if not worker.uses_tokens:
        return 0.0
    return None if worker.card.price is None or usage is None else worker.card.price.cost(usage)


def _spent(reserved: Spend, error: WorkerError, worker: Worker) -> Spend:
    """Return the amount that counts for a failed call: its reservation if its usage is unknown."""
    if error.usage is None:
        return charge(reserved, Usage(), error.cost, "reservation") if error.maybe_paid else Spend(1)
    price = worker.card.price
    cost = price.cost(error.usage) if error.cost is None and price is not None else error.cost
    return charge(reserved, error.usage, cost, charged_by(error.usage))


_ADVICE = re.compile(r"raise Limits\.(\w+) for more")


def in_options(message: str, options: Mapping[str, str]) -> str:
    """Return the message of a `LimitExceeded` for a command."""
    told = _ADVICE.sub(lambda found: f"raise {options.get(found[1], f'[limits] {found[1]}')}", message)
    return told.replace("the run has", "the command has")
