"""Tasks of Inspect that read files of questions, or recordings."""

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

from inspect_podium.messages import output_of
from inspect_podium.scorer import graded, recorded_score
from inspect_podium.solver import answered
from inspect_podium.transcript import show_run
from podium import Conductor, Plan, Step
from podium.hosts import ChatCall
from podium.planners import FixedPlanner, Planner
from podium.types import Message
from podium_evals.arms import ASK
from podium_evals.recorded import Question, Recordings, Vote, read_pool, recorded_pool
from podium_evals.recording import read_questions


@task
def questions(file: str, grader: str | None = None, run_code: str | None = None) -> Task:
    """Return a task with the questions of a file, for any model or solver.

    Args:
        file: a file of questions (JSON lines), for example from `podium evals questions`.
        grader: the grader of all answers; `None` uses the field `grader` of each question.
        run_code: the interpreter that runs code in answers, for the grader `code`; `None` allows no code.

    Raises:
        ConfigError: there is no such grader, or answers are code and `run_code` is `None`.
        RecordingInvalid: the file cannot be read.
    """
    rows = read_questions(file)
    samples = [_sample(each.question) for each in rows]
    return Task(
        dataset=MemoryDataset(samples, name=file, location=file),
        solver=generate(),
        scorer=graded(file, grader, run_code),
    )


@task
def recording(
    file: str,
    workers: str = "all",
    planner: Planner | None = None,
) -> Task:
    """Return a task with the questions of a recording. Recorded workers answer them, and no model is called.

    Each epoch uses the next recorded sample of each worker.

    Args:
        file: a file of recorded answers, as for `podium evals run`.
        workers: names of workers separated by commas, or `all`. With one worker, its answer is the answer;
            with several, a vote chooses the answer.
        planner: a planner that replaces the vote. Its pool has the recorded workers and `Vote`.

    Raises:
        RecordingInvalid: the file cannot be read, or lacks a worker.
    """
    found = read_pool(file, workers)
    return Task(
        dataset=MemoryDataset([_sample(each) for each in found.questions], name=file),
        solver=recorded(found, planner),
        scorer=recorded_score(file, found),
        model="none/none",
    )


@solver
def recorded(recordings: Recordings, planner: Planner | None = None) -> Solver:
    """Return a solver that runs a conductor over recorded workers; by default they all answer, then vote."""
    chosen = planner or FixedPlanner(_plan(len(recordings.workers)))
    conductors = dict[int, Conductor]()

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - the interface has this parameter
        if state.epoch not in conductors:
            pool = [*recorded_pool(recordings, seed=state.epoch - 1), Vote()]
            conductors[state.epoch] = Conductor(chosen, pool)
        call = ChatCall(conductors[state.epoch], [Message("user", state.input_text)])
        output = output_of(await call.run(), "recorded")
        show_run(output)
        return answered(state, output)

    return solve


def _plan(workers: int) -> Plan:
    steps = tuple(Step(worker, ASK) for worker in range(workers))
    if workers == 1:
        return Plan(steps)
    return Plan((*steps, Step(workers, "Choose.", tuple(range(workers)))))


def _sample(question: Question) -> Sample:
    metadata = {"kind": question.kind, "level": question.level}
    return Sample(id=question.id, input=question.text, target=question.expected or "", metadata=metadata)
