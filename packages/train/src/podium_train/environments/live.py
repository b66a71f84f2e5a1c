"""The environment of live workers: the pool of a `podium.toml`, and questions with right answers."""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import cycle, islice
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from podium import Conductor
from podium.config import load_config
from podium.errors import (
    AnswerRefused,
    ConfigError,
    LimitExceeded,
    PlanError,
    PlannerError,
    ToolFailed,
    WorkerFailed,
    WorkerRefused,
)
from podium.planners import FixedPlanner
from podium.types import Completion, Message, Outcome, Plan, Result
from podium.workers import Request, Worker
from podium.workers.rates import identity_of
from podium_evals.grading import choose_graders, grade, grader_version
from podium_evals.recording import Cassette, QuestionRow, read_questions
from podium_train.environments.environment import EarlierRound, Environment, Episode, PlanOutcome, Split
from podium_train.environments.episodes import draw_pool

HELD_OUT = 0.2
"""Share of the questions of each kind, and of the kinds if there are five or more, that is held out."""
_VALIDATION = 0.1
_OF_THE_PLAN = frozenset({AnswerRefused.code, ToolFailed.code, LimitExceeded.code, "dependency", "unseen"})
_OF_A_TOOL = frozenset({WorkerRefused.code, WorkerFailed.code})
"""Codes of the plan's fault if the worker is code, which refuses what it cannot read."""


class LivePool(Environment):
    """Asks live workers; a plan's outcome is a run of the executor, with the limits of the `podium.toml`.

    The outcome is `None` if a worker could not be reached, did not answer in time, sent a broken answer or
    refused the request, after the retries of the `podium.toml`, or if another worker answered as a fallback.
    A plan is graded by what it answered, mostly 0, if it exceeds the limits of a run, if the policy forbids
    it, or if a model refuses to answer.

    Episodes are the same each time, but answers of live workers are not. `version` changes with the workers,
    and the questions; a reward that was cached under it is one sample.

    As an async context manager it keeps connections open between plans.

    Args:
        config: the `podium.toml`. Its pool, limits, retries, policy and `show_question` are used. A step that
            fails is noted, as by `on_failure = "note"`.
        questions: JSON lines with `question`, `answer`, and optionally `kind` and `grader`, see
            `podium_evals.recording.read_questions`.
        grader: the grader of all questions; `None` takes the one that each question names.
        python: the interpreter for graders that run code; `None` allows none.
        cassette: recorded calls of these workers, by their whole prompts (`podium evals record run`); a plan
            with another call has no outcome. `None` calls the workers.
        sizes: possible numbers of models in a pool, in random order; `None` takes all, in the order of the
            `podium.toml`, so that a conductor can learn their numbers. Tools are in each pool.

    Raises:
        ConfigError: a file is invalid, a question cannot be graded, or there are too few workers.
        RecordingInvalid: the file of questions cannot be read.
    """

    name = "live"

    def __init__(
        self,
        config: Path | str,
        questions: Path | str,
        *,
        grader: str | None = None,
        python: str | None = None,
        cassette: Path | str | None = None,
        sizes: tuple[int, ...] | None = None,
    ) -> None:
        self._conductor = _conductor(Path(config))
        self.unpriced = self._conductor.unpriced
        self._places = {card.name: place for place, card in enumerate(self._conductor.pool.cards)}
        workers = self._conductor.pool.workers
        self._models = [worker.card.name for worker in workers if worker.reads_prose]
        self._tools = [worker.card.name for worker in workers if not worker.reads_prose]
        self._free = {worker.card.name for worker in workers if not worker.uses_tokens}
        self._sizes = sizes
        if sizes is not None and max(sizes) > len(self._models):
            raise ConfigError(
                f"sizes is {sizes!r}: {config} has {len(self._models)} models; write smaller sizes, or add "
                "workers"
            )
        rows = read_questions(questions)
        if python is None and "code" in (grader, *(each.row.get("grader") for each in rows)):
            raise ConfigError(
                f"{questions} has questions on code: allow to run answers, with `python` in [environment]"
            )
        self._cassette = None
        if cassette is not None:
            with Cassette(cassette) as self._cassette:  # reads all calls
                pass
        self._grader_of = choose_graders(rows, grader, python)
        self._rows = {row.question.key: row for row in rows}
        self._check_grades(rows)
        self._of_split = _split(rows)
        self.splits = tuple(self._of_split)
        if "train" not in self.splits:
            raise ConfigError(f"{questions} has {len(rows)} questions: at least one is needed to train on")
        told = [(name, identity_of(workers[place])) for name, place in self._places.items()]
        asked = [(key, sorted(row.row.items())) for key, row in sorted(self._rows.items())]
        graded = (grader, grader_version(grader), python)
        heard = None if cassette is None else sha256(Path(cassette).read_bytes()).hexdigest()
        content = repr((told, asked, graded, self._conductor.limits, heard))
        self.version = sha256(content.encode("utf-8", "replace")).hexdigest()[:16]

    async def __aenter__(self) -> Self:
        await self._conductor.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._conductor.__aexit__(kind, error, trace)

    def episodes(self, split: Split, count: int, *, seed: int) -> Sequence[Episode]:
        """Return episodes of a split. If it has fewer questions, questions repeat.

        Raises:
            ConfigError: the environment has no such split, or `count` is negative.
        """
        if split not in self.splits:
            raise ConfigError(f"there is no split {split!r}: {self.name} has {', '.join(self.splits)}")
        if count < 0:
            raise ConfigError(f"count is {count!r}: it must be 0 or more")
        random = Random(f"{split}/{seed}")
        rows = list(self._of_split[split])
        random.shuffle(rows)
        return [self._episode(row, random) for row in islice(cycle(rows), count)]

    async def carry_out(
        self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None
    ) -> PlanOutcome | None:
        """Run a plan and grade its answer; `None` if a worker failed through no fault of the plan.

        A second round is the second round of a run whose first round has the outputs of `earlier`; its
        workers are not called again.

        Raises:
            ConfigError: the episode is of another environment.
        """
        row = self._rows.get(episode.reference)
        if row is None or not all(name in self._places for name in episode.workers):
            raise ConfigError(f"the episode {episode.key} is not of the environment {self.name!r}")
        places = [self._places[name] for name in episode.workers]
        asked = plan.renumbered(places)
        try:
            result = await self._run(
                episode, asked, None if earlier is None else _renumbered(earlier, places)
            )
        except (PlanError, PlannerError):
            return PlanOutcome(score=0.0)
        if len(result.rounds) <= (earlier is not None):
            return None
        outcomes = result.rounds[-1].outcomes
        names = [self._conductor.pool.names[step.worker] for step in asked.calls]
        if any(_is_outage(outcome, names[outcome.step], self._free) for outcome in outcomes):
            return None
        grader = self._grader_of(row.row)
        assert grader is not None  # checked in the constructor
        _, score = await grade(grader, row.row, result.answer)
        return PlanOutcome(
            score=score,
            cost=result.cost,
            calls=sum(outcome.attempts for outcome in outcomes),
            tokens=result.usage.total_tokens,
            outputs=tuple(outcome.text if outcome.status == "ok" else None for outcome in outcomes),
        )

    async def _run(self, episode: Episode, plan: Plan, earlier: EarlierRound | None) -> Result:
        query = (Message("user", episode.question),)
        if earlier is None:
            return await self._conductor.run(replace(plan, query=query), middleware=self._cassette)
        second = _with(self._conductor, FixedPlanner(plan), rounds=2)
        first = replace(earlier.plan, query=query)
        return await second.run(first, middleware=partial(_recalled, earlier.outputs, self._cassette))

    def _episode(self, row: QuestionRow, random: Random) -> Episode:
        models = tuple(self._models) if self._sizes is None else draw_pool(self._models, self._sizes, random)
        names = (*models, *self._tools)
        cards = self._conductor.pool.cards
        return Episode(
            question=row.question.text,
            cards=tuple(cards[self._places[name]] for name in names),
            workers=names,
            kind=row.question.kind,
            reference=row.question.key,
            shows_question=self._conductor.show_question,
            fills=tuple(range(len(models), len(names))),
        )

    def _check_grades(self, rows: Iterable[QuestionRow]) -> None:
        for each in rows:
            grader = self._grader_of(each.row)
            if grader is None:
                told = f"the question {each.question.id!r} names no grader"
                raise ConfigError(f"{told}: write `grader` beside it, or choose one for all")
            grader(each.row, "?")


def _conductor(path: Path) -> Conductor:
    """Return a conductor with the pool of a config, which makes no further plan after a failure."""
    built = load_config(path).conductor(journaled=False)
    if not isinstance(built, Conductor):
        raise ConfigError(f"{path} has a hosted conductor: name the workers that are to be conducted")
    return _with(built, FixedPlanner(""), rounds=1)


def _with(built: Conductor, planner: FixedPlanner, *, rounds: int) -> Conductor:
    return Conductor(
        planner,
        built.pool,
        limits=replace(built.limits, rounds=rounds),
        policy=built.policy,
        retry=built.retry,
        show_question=built.show_question,
    )


async def _recalled(
    outputs: Sequence[str | None], cassette: Cassette | None, worker: Worker, request: Request
) -> AsyncGenerator[str | Completion, None]:
    """Answer the calls of the first round with its outputs, and make the calls of the second."""
    assert request.caller is not None
    if request.caller.round == 1:
        output = outputs[request.caller.step]
        if output is None:
            raise WorkerRefused("the step has no output in the first round")
        yield Completion(output, cost=0.0)
        return
    async with aclosing(worker.call(request) if cassette is None else cassette(worker, request)) as pieces:
        async for piece in pieces:
            yield piece


def _renumbered(earlier: EarlierRound, places: Sequence[int]) -> EarlierRound:
    return replace(earlier, plan=earlier.plan.renumbered(places))


def _is_outage(outcome: Outcome, planned: str, tools: Collection[str]) -> bool:
    """Return whether a step failed through no fault of the plan, or was answered by a fallback."""
    if outcome.attempts and outcome.worker != planned:
        return True
    if outcome.problem is None or outcome.problem.code in _OF_THE_PLAN:
        return False
    return not (outcome.worker in tools and outcome.problem.code in _OF_A_TOOL)


def _split(rows: Sequence[QuestionRow]) -> Mapping[Split, Sequence[QuestionRow]]:
    kinds = sorted({row.question.kind for row in rows})
    kinds.sort(key=lambda kind: sha256(kind.encode()).digest())
    new = set(kinds[: round(HELD_OUT * len(kinds))]) if len(kinds) >= 5 else set()
    found: dict[Split, list[QuestionRow]] = {"train": [], "validation": [], "questions": [], "kinds": []}
    for row in rows:
        place = row.question.position(0)
        if row.question.kind in new:
            found["kinds"].append(row)
        elif place < HELD_OUT:
            found["questions"].append(row)
        else:
            found["validation" if place < HELD_OUT + _VALIDATION else "train"].append(row)
    return {split: each for split, each in found.items() if each}
