"""Records each call of a run by its whole prompt, replays it exactly, and so compares plans of several steps.

A cassette is a file of JSON lines. The first line names the kind of file. Each other line is one answer:

    {"type": "cassette", "version": 1}
    {"type": "call", "key": "…", "number": 0, "worker": "…", "asked": […], "seconds": 2.1, "answer": {…}}
"""

import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Literal, Self

import anyio

from podium import Conductor
from podium.cli.screen import counted, money
from podium.errors import JournalBroken, PodiumError
from podium.secrets import scrub
from podium.types import Completion, Message, Outcome, Plan, Result
from podium.types.codec import read_record, write_record
from podium.types.outcome import total_cost
from podium.workers import Request, Worker
from podium_evals.arms.run_scores import unrecorded
from podium_evals.errors import RecordingInvalid, Unrecorded
from podium_evals.grading import Grader, GraderOf, grade, grader_of
from podium_evals.recording.files import AppendedLines, QuestionRow, read_lines

_BEGINS = '{"type": "cassette", "version": 1}'
_SHOWN = 60

Mode = Literal["replay", "record"]


class Cassette:
    """The answers that runs have got, in a file. Pass it as the `middleware` of a run.

    A call is found by the name of its worker, all messages, the caller's tools, the named texts, the sampling
    settings but `max_tokens`, the form of the answer, and its number among the equal calls of its run. So
    three equal calls of a run have three answers, and another run gets the same three. The calls of a
    planner that asks a model are recorded, too. Calls that fail are not.

    Use it as a context manager. It may serve several runs at the same time.

    Args:
        path: the file.
        mode: `replay` calls no worker: a call that was not recorded fails with `Unrecorded`. `record` makes
            such a call, and appends its answer before the run has it.

    Raises:
        RecordingInvalid: on entering: the file is another one, or cannot be read or written, or another
            process appends to it.
    """

    def __init__(self, path: Path | str, *, mode: Mode = "replay") -> None:
        self.path = Path(path)
        self.replayed = 0
        """Number of calls that were answered from the file."""
        self.recorded = 0
        """Number of calls whose answers were appended."""
        self._file = AppendedLines(self.path, begins=_BEGINS, what="cassette") if mode == "record" else None
        self._answers = dict[tuple[str, int], tuple[int | None, Completion]]()
        """The `max_tokens` of a call, and its answer."""
        self._taken: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """The numbers of the calls of each run and key."""
        self._locks: defaultdict[tuple[str, int], anyio.Lock] = defaultdict(anyio.Lock)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._file is None:
                lines = read_lines(self.path, begins=_BEGINS, what="cassette")
            else:
                stack.enter_context(self._file)
                lines = self._file.lines
                if not lines:
                    self._file.write([f"{_BEGINS}\n"])
            for number, line in enumerate(lines[1:], 2):
                self._read(line, f"{self.path}, line {number}")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _read(self, line: bytes, where: str) -> None:
        try:
            row = json.loads(line)
            answer = read_record(json.dumps(row["answer"]), Completion, "completion")
            self._answers[row["key"], row["number"]] = (row["max_tokens"], answer)
        except (ValueError, LookupError, TypeError, JournalBroken) as error:
            raise RecordingInvalid(f"{where} is not a call of a cassette: {error}") from error

    async def __call__(self, worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Yield the recorded answer of a call, or the pieces of the call that is recorded.

        Raises:
            Unrecorded: the call was not recorded, and the mode is `replay`.
            RecordingInvalid: the file cannot be written.
        """
        asked = _asked(worker, request)
        key = sha256(json.dumps(asked, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
        taken = self._taken["" if request.caller is None else request.caller.run_id, key]
        # A planner repeats a call only after a failure, and no caller names its run.
        number = 0 if request.caller is None else next(n for n in range(len(taken) + 1) if n not in taken)
        taken.add(number)
        has_answer = False
        try:
            async with self._locks[key, number]:  # an equal call of another run waits for the answer
                found = self._found(key, number, request)
                call = (
                    self._replay(found, request)
                    if found
                    else self._record(worker, request, asked, key, number)
                )
                async with aclosing(call) as pieces:
                    async for piece in pieces:
                        has_answer = has_answer or isinstance(piece, Completion)
                        yield piece
        finally:
            if not has_answer:
                taken.discard(number)

    def _found(self, key: str, number: int, request: Request) -> Completion | None:
        """Return the recorded answer of a call; `None` if it would now have been cut elsewhere."""
        cap, answer = self._answers.get((key, number), (None, None))
        is_cut = answer is not None and answer.finish_reason == "length"
        return None if is_cut and cap != request.sampling.max_tokens else answer

    async def _replay(self, answer: Completion, request: Request) -> AsyncGenerator[str | Completion, None]:
        self.replayed += 1
        if request.stream and answer.text:
            yield answer.text
        yield answer

    async def _record(
        self, worker: Worker, request: Request, asked: list[Any], key: str, number: int
    ) -> AsyncGenerator[str | Completion, None]:
        if self._file is None:
            told = f", call {number + 1} with this prompt" if number else ""
            asks = request.messages[-1].text if request.step_input is None else request.step_input.subtask
            raise Unrecorded(
                f"{self.path} has no answer of {worker.card.name!r} to {asks[-_SHOWN:]!r}{told}, with these "
                "messages and settings: record it with mode='record', or `podium evals record run`"
            )
        began = monotonic()
        async with aclosing(worker.call(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion):
                    cap = request.sampling.max_tokens
                    row = {"type": "call", "key": key, "number": number, "worker": worker.card.name}
                    row |= {"asked": asked, "max_tokens": cap, "seconds": round(monotonic() - began, 3)}
                    row["answer"] = json.loads(write_record(piece, "completion"))
                    await self._file.append([scrub(json.dumps(row)) + "\n"])
                    self._answers[key, number] = (cap, piece)
                    self.recorded += 1
                yield piece


def _asked(worker: Worker, request: Request) -> list[Any]:
    """Return what a call is found by, as JSON."""
    tools = None if request.tools is None else [*request.tools.offered, request.tools.choice]
    texts = () if request.step_input is None or not worker.takes_texts else request.step_input.texts
    sampling = replace(request.sampling, max_tokens=None)
    return [
        worker.card.name,
        [each.to_wire() for each in request.messages],
        tools,
        list(texts),
        repr(sampling),
    ]


@dataclass(slots=True)
class PlanScores:
    """What one plan has reached on the questions."""

    scores: list[float | None] = field(default_factory=list)
    """For each question; `None` if it has no grader, or a call was not recorded."""
    calls: int = 0
    """Calls of workers and planners."""
    tokens: int = 0
    costs: list[float | None] = field(default_factory=list)
    """In USD, for each run; `None` if it is unknown."""
    failed: Counter[str] = field(default_factory=Counter)
    """Number of runs without a complete answer, by the code of their problem."""

    @property
    def cost(self) -> float | None:
        """The cost of all runs, in USD; `None` if one is unknown."""
        return total_cost(self.costs)

    def add(self, result: Result) -> None:
        """Add what a run has spent."""
        self.calls += sum(each.attempts for each in result.outcomes if not _is_unrecorded(each))
        self.calls += sum(proposal.usage.total_tokens > 0 for proposal in result.proposals)
        self.tokens += result.usage.total_tokens
        self.costs.append(result.cost)
        if result.problem is not None:
            self.failed[result.problem.code] += 1


def plan_table(found: Mapping[str, PlanScores]) -> list[dict[str, Any]]:
    """Return a row for each plan, as JSON data: its score, gain over the first plan, and spending.

    The gain is over the questions that all plans have scores for, with a joint interval for all gains.
    """
    # scipy is slow to import
    from podium_evals.statistics import Resampling, compare  # noqa: PLC0415

    columns = {name: each.scores for name, each in found.items()}
    shared = [at for at, each in enumerate(zip(*columns.values(), strict=True)) if None not in each]
    scores = {name: [float(column[at] or 0.0) for at in shared] for name, column in columns.items()}
    first = next(iter(found))
    gains = compare(scores, Resampling([""] * len(shared)), against=first) if len(shared) > 1 else {}
    rows = []
    for name, each in found.items():
        graded = [score for score in each.scores if score is not None]
        row: dict[str, Any] = {"plan": name, "questions": len(each.scores), "scored": len(graded)}
        row["score"] = sum(graded) / len(graded) if graded else None
        if name in gains:
            whole = gains[name].together
            row["gain"] = {"mean": whole.mean, "low": whole.low, "high": whole.high}
        rows.append(
            row | {"calls": each.calls, "tokens": each.tokens, "cost": each.cost, "failed": each.failed}
        )
    return rows


def told_row(row: Mapping[str, Any]) -> str:
    """Return a row of the table in words."""
    told = [f"{row['scored']} of {row['questions']} scored"]
    if row["score"] is not None:
        told.insert(0, f"score {row['score']:.3f}")
    if gain := row.get("gain"):
        told.insert(1, f"gain {gain['mean']:+.3f} ({gain['low']:+.3f} … {gain['high']:+.3f})")
    told += [counted(row["calls"], "call"), f"{row['tokens']:,} tokens"]
    told += ["unknown cost" if row["cost"] is None else money(row["cost"])]
    told += [f"{count} {code}" for code, count in row["failed"].items()]
    return f"{row['plan']}: {', '.join(told)}"


async def run_plans(
    conductor: Conductor,
    plans: Mapping[str, Plan | None],
    rows: Sequence[QuestionRow],
    cassette: Cassette,
    *,
    grader: Grader | GraderOf | None = None,
    at_once: int = 8,
) -> dict[str, PlanScores]:
    """Run each plan on each question, and return its scores, by the name of the plan.

    A run that fails scores 0. So does a run whose plan cannot be used.

    Args:
        conductor: its limits hold for each run.
        plans: the plans, by name; `None` stands for a plan of the conductor's planner for each question.
        rows: the questions.
        cassette: records or replays the calls, entered.
        grader: scores the answers, or chooses the grader of a row; `None` gives no scores.
        at_once: maximum runs at the same time.

    Raises:
        ConfigError: a question cannot be graded.
        RecordingInvalid: the cassette cannot be written.
    """
    found, choose = dict[str, PlanScores](), grader_of(grader)
    slots = anyio.CapacityLimiter(at_once)

    async def ask(scores: PlanScores, plan: Plan | None, number: int) -> None:
        async with slots:
            scores.scores[number] = await _score(conductor, plan, rows[number], cassette, choose, scores)

    async with conductor:
        for name, plan in plans.items():
            found[name] = PlanScores([None] * len(rows))
            async with anyio.create_task_group() as group:
                for number in range(len(rows)):
                    group.start_soon(ask, found[name], plan, number)
    return found


async def _score(
    conductor: Conductor,
    plan: Plan | None,
    row: QuestionRow,
    cassette: Cassette,
    choose: GraderOf,
    scores: PlanScores,
) -> float | None:
    """Return the score of one run; `None` if there is none."""
    query = (Message("user", row.question.text),)
    grader = choose(row.row)
    try:
        result = await conductor.run(
            query if plan is None else replace(plan, query=query), middleware=cassette
        )
    except PodiumError as error:
        scores.failed[error.code] += 1
        scores.costs.append(None)
        return None if unrecorded(error) is not None or grader is None else 0.0
    scores.add(result)
    if grader is None or any(map(_is_unrecorded, result.outcomes)):
        return None
    return (await grade(grader, row.row, result.answer))[1]


def _is_unrecorded(outcome: Outcome) -> bool:
    return outcome.problem is not None and outcome.problem.code == Unrecorded.code
