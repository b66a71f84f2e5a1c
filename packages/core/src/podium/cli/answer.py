"""Runs a job for a command and shows its result."""

import re
from pathlib import Path
from shlex import quote

import anyio
import typer

from podium.cli import drawing, live
from podium.cli.arguments import OPTION_OF_LIMIT, command
from podium.cli.job import Job, follow
from podium.cli.live.live_state import LiveState
from podium.cli.result_json import charge_line, problem_line, result_json, status_line, step_outputs
from podium.cli.run_lookup import short_id
from podium.cli.screen import NO_ANSWER, PARTIAL, WAITING, Screen
from podium.errors import JournalError, LimitExceeded, ListenerFailed, PlannerError, PodiumError
from podium.run.no_plan import FALLBACK
from podium.types.conclusion import STALE, missing
from podium.types.result import Result

_EXITS = {"partial": PARTIAL, "failed": NO_ANSWER, "waiting": WAITING}


class Answering:
    """One run that a command starts and shows.

    Args:
        screen: shows the run.
        as_json: whether to write the result as JSON.
        explain: whether to write `Result.explain()` to stderr too.
        outputs: whether to write the output of each step to stderr too.
        recorded: whether the run is in a journal, so that it can be resumed.
        config: the value of `--config`, for the commands that are shown.
    """

    def __init__(
        self,
        screen: Screen,
        *,
        as_json: bool,
        explain: bool = False,
        outputs: bool = False,
        recorded: bool,
        config: Path | None = None,
    ) -> None:
        self._screen = screen
        self._as_json = as_json
        self._explain = explain
        self._outputs = outputs
        self._recorded = recorded
        self._config = config
        self._state = LiveState()
        self.view = live.View(screen, self._state) if screen.interactive and not as_json else None

    def carry_out(self, job: Job) -> None:
        """Run the job, show its result, and exit with its exit code.

        Raises:
            PodiumError: the run failed without a result.
        """
        try:
            result = anyio.run(self._done, job)
        except (KeyboardInterrupt, PodiumError) as error:
            if isinstance(error, JournalError | ListenerFailed) and error.result is not None:
                self._show_result(error.result)  # the answer is paid for
            elif self._recorded and self._state.runs:
                run_id = next(iter(self._state.runs))
                error.add_note(
                    f"continue with `{command(f'resume {quote(short_id(run_id))}', self._config)}`"
                )
            root = self._state.root
            if isinstance(error, PlannerError) and self._as_json and root is not None and root.result:
                self._show_result(root.result)  # programs need the cost of a failed run too
            raise
        self._show(result)
        if result.status != "ok":
            raise typer.Exit(_EXITS[result.status])

    async def _done(self, job: Job) -> Result:
        return await (follow(job, self._state) if self.view is None else self.view.watch(job))

    def _show_result(self, result: Result) -> None:
        if self._as_json:
            self._screen.result_json(result_json(result))
        else:
            show_answer(self._screen, result)

    def _show(self, result: Result) -> None:
        if self._as_json:
            self._screen.result_json(result_json(result))
            return
        for output in step_outputs(result) if self._outputs else ():
            self._screen.note(output)
        show_answer(self._screen, result)
        if self._screen.interactive or result.status != "ok":
            self._screen.note(f"podium: {status_line(result)}")
            for line in filter(None, [charge_line(result), problem_line(result)]):
                self._screen.note(f"podium: {line}")
        if self._recorded:
            self._screen.note(f"podium: run {result.run_id}{_hint(result, self._config)}")
        if self._explain:
            self._screen.note(result.explain())


def show_answer(screen: Screen, result: Result) -> None:
    """Write the answer, if there is one, to stdout: as Markdown in a terminal, else verbatim."""
    if result.answer and screen.interactive:
        screen.draw(drawing.markdown(screen.shown(result.answer)))
    elif result.answer:
        screen.result(result.answer)


def _hint(result: Result, config: Path | None) -> str:
    """Return the commands that help with a run that has no complete answer."""
    short = quote(short_id(result.run_id))
    resume = command(f"resume {short}", config)
    if result.problem is not None and result.problem.code == FALLBACK:
        is_asked = any(call.asked and call.problem is not None for call in result.proposals)
        return f": ask the planner again with `{resume}`" if is_asked else ""  # the policy forbids the call
    if result.problem is not None and result.problem.code == LimitExceeded.code:
        return f": {_with_higher_limit(resume, result.problem.message)}"
    if result.answer and missing(result.rounds[-1]):
        resume += " --refresh"
    ends = ("failed", "unknown") if result.status in ("partial", "failed") else ("unknown",)
    for action in result.actions:
        if action.end in ends:  # it is not repeated before a person decides
            words = "not-done" if action.end == "failed" else "done|not-done"
            decide = f"decide {quote(short_id(action.run_id))} --action {action.step} {words}"
            return f": decide with `{command(decide, config)}`, then continue with `{resume}`"
    match result.status:
        case "ok":
            return ""
        case "waiting":
            see, approve = command(f"show {short}", config), command(f"decide {short} approve", config)
            refuse = command(f"decide {short} refuse --why TEXT", config)
            return f": see it with `{see}`, then `{approve}` or `{refuse}`"
        case _:
            is_stale = result.problem is not None and result.problem.code == STALE
            return f": {'make these steps again' if is_stale else 'retry the failed steps'} with `{resume}`"


def _with_higher_limit(resume: str, message: str) -> str:
    """Return how to continue a run that reached a limit which the message names."""
    named = dict.fromkeys(re.findall(r"\bLimits\.(\w+)", message))
    options = [OPTION_OF_LIMIT[name] for name in named if name in OPTION_OF_LIMIT]
    if not options:  # a limit of one step or call, which is read from the config each time
        return f"continue with `{resume}`"
    return f"continue with `{resume} {' N '.join(options)} N` (a changed podium.toml is for new runs only)"
