"""Examples from the good runs of a journal: what has worked in production."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from podium import Pool
from podium.errors import JournalBroken
from podium.journal import Journal
from podium.plan_text import write_plan
from podium.run_state import fold
from podium.types import Event, Plan, Result, RunStarted
from podium_train.environments import Episode
from podium_train.prompts import PromptStyle, messages
from podium_train.warm_start.examples import Example

KIND = "journal"
"""The kind of a run whose score names none."""


@dataclass(frozen=True, slots=True)
class RunScore:
    """The score that a user or a program gave to the answer of a run."""

    run: str
    """The id of the run, or the beginning of the id."""
    score: float
    """0 to 1."""
    kind: str | None = None
    """The kind of the example."""


@dataclass(slots=True)
class JournalExamples:
    """What was found in a journal."""

    examples: list[Example] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of runs that were left out, by reason."""


async def examples_of_journal(
    journal: Journal,
    pool: Pool,
    style: PromptStyle,
    *,
    scores: Sequence[RunScore] = (),
    least: float = 1.0,
    shows_question: bool = True,
) -> JournalExamples:
    """Return an example for each good run of a journal.

    A run is good if its score is `least` or more. Without a score it is good if the conductor's `accept`
    accepted its answer. The run ended `ok` with its first plan, which a planner wrote. The prompt has the
    cards of today.

    Args:
        journal: the journal.
        pool: the workers, with their cards.
        style: how the conductor will be asked.
        scores: scores of runs.
        least: the lowest score of a good run.
        shows_question: whether workers see the question, as the conductor's `show_question` says.

    Raises:
        JournalError: the journal cannot be read.
    """
    found = JournalExamples()
    of_run = {score.run: score for score in scores}
    async with journal:
        for row in await journal.runs(limit=None):
            try:
                events = [entry.event for entry in await journal.read(row.run_id)]
            except JournalBroken:
                found.left_out["the record cannot be read"] += 1
                continue
            score = next((of_run[run] for run in of_run if row.run_id.startswith(run)), None)
            example = _example(events, pool, style, score, least, shows_question)
            if isinstance(example, str):
                found.left_out[example] += 1
            else:
                found.examples.append(example)
    return found


def _example(
    events: Sequence[Event],
    pool: Pool,
    style: PromptStyle,
    score: RunScore | None,
    least: float,
    shows_question: bool,  # noqa: FBT001 - private
) -> Example | str:
    """Return the example of a run, or the reason why it has none."""
    started, result = events[0], fold(events).result()
    assert isinstance(started, RunStarted)
    if why := _unfit(started, pool) or _not_good(result, score, least):
        return why
    only = result.rounds[0]
    assert only.plan is not None
    assert only.planner is not None
    if len(only.plan.calls) > style.max_steps:
        return f"the plan has more than {style.max_steps} steps"
    plan = Plan(only.plan.calls)
    return Example(
        messages=messages(_episode(started, pool, score, shows_question), style),
        completion=write_plan(plan, style.spelling).strip(),
        source=f"journal, {only.planner.name}",
        reward=1.0 if score is None else 0.5 + 0.5 * score.score,
        kind=KIND if score is None or score.kind is None else score.kind,
    )


def _unfit(started: RunStarted, pool: Pool) -> str:
    """Return why a run cannot be an example; empty if it can."""
    if len(started.query) != 1 or not isinstance(started.query[0].content, str) or started.tool_messages:
        return "the query is a conversation, or has attachments"
    if started.parent is not None:
        return "the run is nested in another run"
    if missing := set(started.workers) - set(pool.names):
        return f"the pool has no worker {min(missing)!r}"
    return ""


def _not_good(result: Result, score: RunScore | None, least: float) -> str:
    """Return why a run is not a good one; empty if it is."""
    if result.status != "ok" or len(result.rounds) != 1:
        return "the run did not end ok with its first plan"
    only = result.rounds[0]
    if only.plan is None or only.planner is None or only.planner.name == "user":
        return "a user wrote the plan"
    if score is None and only.check is None:
        return "nobody judged the answer"
    if score is not None and score.score < least:
        return "the score is too low"
    return ""


def _episode(started: RunStarted, pool: Pool, score: RunScore | None, shows_question: bool) -> Episode:  # noqa: FBT001
    places = [pool.names.index(name) for name in started.workers]
    prose: Collection[int] = {place for place in places if pool.workers[place].reads_prose}
    texts: Mapping[str, str] = started.context
    return Episode(
        question=started.query[0].text,
        cards=tuple(pool.cards[place] for place in places),
        workers=started.workers,
        kind=KIND if score is None or score.kind is None else score.kind,
        texts=tuple(texts.items()),
        shows_question=shows_question,
        fills=tuple(number for number, place in enumerate(places) if place not in prose),
    )
