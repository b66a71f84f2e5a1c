"""Runs plans on questions, with a cassette, and compares their scores: arms of several steps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from podium import Conductor
from podium.cli.screen import counted, money
from podium.errors import PodiumError
from podium.types import Message, Outcome, Plan, Result
from podium.types.outcome import total_cost
from podium_evals.arms.run_scores import unrecorded
from podium_evals.errors import Unrecorded
from podium_evals.grading import Grader, GraderOf, grade, grader_of
from podium_evals.recording.cassette import Cassette
from podium_evals.recording.question_rows import QuestionRow


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
