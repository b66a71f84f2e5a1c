"""Writes plans of a conductor to a file that `podium evals run --arm planner:FILE` compares."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from podium.types import Plan
from podium_evals.plans import NoPlan, PlanFile, PlansAbout, RecordedPlan
from podium_evals.recorded import FirstAgreeing, JoinParts, Longest, Vote, content_key
from podium_train.environments import RecordedAnswers
from podium_train.evaluation.evaluating import Trial


async def write_plans(
    path: Path | str, trials: Sequence[Trial], environment: RecordedAnswers, *, planner: str
) -> int:
    """Append the plans of an arm to a file of recorded plans, and return how many were new.

    Use episodes of `RecordedAnswers.episodes_of`, whose pools have all workers. The first text for a question
    counts. Where workers see the bundle, subtasks are written with the text of the part that they name, which
    is what was recorded. A text without a valid plan is written as unusable. Where the arm failed, nothing is
    written.

    Args:
        path: the file, which is made where it is missing.
        trials: the trials of one arm.
        environment: the environment of the episodes.
        planner: the name of the conductor.

    Raises:
        RecordingInvalid: the file is something else, or has plans of another planner or for another pool.
    """
    reducers = [Vote(), FirstAgreeing(), Longest(), *([JoinParts()] if environment.settings.parts else [])]
    workers = (*environment.recordings.workers, *(reducer.card.name for reducer in reducers))
    about = PlansAbout(planner=planner, workers=workers, is_told=False, source="podium-train")
    written = 0
    with PlanFile(path, about) as file:
        for trial in trials:
            key = content_key(trial.episode.question)
            if trial.failure or key in file.queries:
                continue
            await file.append(_recorded(key, trial, environment, workers))
            written += 1
    return written


def _recorded(key: str, trial: Trial, environment: RecordedAnswers, workers: Sequence[str]) -> RecordedPlan:
    plan = trial.reward.plan
    if plan is None:
        why: tuple[NoPlan, str] = ("planner_unusable", trial.reward.problem)
        return RecordedPlan(query=key, plan=None, text=trial.text, problem=why, cost=None)
    places = [workers.index(name) for name in trial.episode.workers]
    asked = environment.as_recorded(trial.episode, plan).calls
    steps = tuple(replace(step, worker=places[step.worker]) for step in asked)
    return RecordedPlan(query=key, plan=Plan(steps), text=trial.text, cost=None)
