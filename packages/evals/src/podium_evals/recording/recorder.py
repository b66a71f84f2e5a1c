"""Asks workers questions within a budget, and records the answers. A stopped recording can be continued.

A worker is shown only the question. Failed calls are retried according to `podium.execution.Retry`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
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
from podium.errors import AnswerEmpty, AnswerRefused, ConfigError, LimitExceeded, WorkerError, WorkerTimeout
from podium.execution import Retry
from podium.types import Completion, Message, Sampling
from podium.types.messages import usage_or_estimate
from podium.usage import Usage
from podium.workers import Pool, Request, Worker, complete
from podium_evals.grading import Grader, GraderOf, grade, grader_of
from podium_evals.recorded import DatedPrice, Sample, read_recordings
from podium_evals.recording.forecast import Forecast, Measured, forecast
from podium_evals.recording.growing_file import GrowingFile
from podium_evals.recording.question_rows import QuestionRow
from podium_evals.task_failures import first_failure


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
        on_sample: called after each recorded answer.
        name_of: returns the name under which the answers of a worker are recorded.

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
        on_sample: Callable[[QuestionRow, str, Sample], None] | None = None,
        name_of: Callable[[Worker], str] = lambda worker: worker.card.name,
    ) -> None:
        if samples < 1 or at_once < 1:
            raise ConfigError(f"samples is {samples!r} and at_once {at_once!r}: both must be 1 or more")
        self._file = file
        self._pool = Pool(workers)
        self._limits = limits or Limits()
        self._samples = samples
        self._at_once = at_once
        self._grader = grader_of(grader)
        self._retry = retry or Retry()
        self._on_sample = on_sample
        self._name_of = name_of
        self._slots = {
            worker.card.name: anyio.CapacityLimiter(worker.card.concurrency or at_once) for worker in workers
        }
        self._ledger = Ledger(self._limits, deadline=inf)
        self._summary = Summary()

    async def record(
        self,
        rows: Sequence[QuestionRow],
        *,
        wanted: Callable[[QuestionRow, Worker], bool] = lambda _row, _worker: True,
    ) -> Summary:
        """Ask for the answers that are missing in the file.

        Args:
            rows: the questions.
            wanted: returns whether a worker is asked a question.

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
        pairs = [(row, worker) for row in rows for worker in self._pool if wanted(row, worker)]
        calls = self._missing(pairs)
        self._summary.already += len(pairs) * self._samples - len(calls)
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
            dated = DatedPrice(worker=self._name_of(worker), as_of=_today(), price=price, source=source)
            await self._file.append_price(dated)

    def forecast(self, rows: Sequence[QuestionRow]) -> Forecast:
        """Return what the missing answers will cost and how long they will take.

        The expected amounts are computed from the answers in the file, and hold if the other answers are as
        long. They are unknown if a worker has no answer in the file.

        Args:
            rows: the questions.
        """
        calls = self._missing([(row, worker) for row in rows for worker in self._pool])
        of_name = {self._name_of(worker): worker for worker in self._pool}
        measured = {name: Measured() for name in of_name}
        for recording in read_recordings(self._file.path) if self._file.samples else ():
            if (worker := of_name.get(recording.worker)) is not None:
                for sample in recording.samples:
                    measured[recording.worker].add(sample, worker)
        return forecast(
            Counter(self._name_of(call.worker) for call in calls),
            measured,
            most_cost=self._most(calls),
            at_once=self._at_once,
            concurrency={name: worker.card.concurrency or self._at_once for name, worker in of_name.items()},
        )

    def _most(self, calls: Iterable[Call]) -> float | None:
        costs = []
        for call in calls:
            worst = call.worker.worst_case(self._request(call), self._limits.answer_tokens)
            if worst is None or (worst.cost is None and call.worker.uses_tokens):
                return None
            costs.append(worst.cost or 0.0)
        return sum(costs)

    def _missing(self, pairs: Sequence[tuple[QuestionRow, Worker]]) -> list[Call]:
        return [
            Call(row, worker, number)
            for row, worker in pairs
            for number in range(self._file.samples[row.question.key, self._name_of(worker)], self._samples)
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
                name = self._name_of(call.worker)
                await self._file.append(call.row.question, name, sample)
                self._summary.recorded += 1
                if self._on_sample is not None:
                    self._on_sample(call.row, name, sample)
                return

    async def _ask(self, call: Call) -> Sample:
        """Make one call, and add its usage to the ledger.

        Raises:
            LimitExceeded: the call does not fit the budget.
            WorkerError: there is no answer.
        """
        request = self._request(call)
        reservation = await self._reserve(call.worker, request)
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
            spent = charge(reserved, usage, _cost(call.worker, usage, completion), charged_by(usage))
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

    async def _reserve(self, worker: Worker, request: Request) -> Reservation:
        worst = worker.worst_case(request, self._limits.answer_tokens)
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


def _cost(worker: Worker, usage: Usage, completion: Completion) -> float | None:
    if completion.cost is not None:
        return completion.cost
    if not worker.uses_tokens:
        return 0.0
    return None if worker.card.price is None else worker.card.price.cost(usage)


def _spent(reserved: Spend, error: WorkerError, worker: Worker) -> Spend:
    """Return the amount that counts for a failed call: its reservation if its usage is unknown."""
    if error.usage is None:
        return charge(reserved, Usage(), error.cost, "reservation") if error.maybe_paid else Spend(1)
    price = worker.card.price
    cost = price.cost(error.usage) if error.cost is None and price is not None else error.cost
    return charge(reserved, error.usage, cost, charged_by(error.usage))
