"""`podium replay`: repeat a recorded run."""

from collections.abc import Callable

from podium.cli.answer import Answering
from podium.cli.arguments import (
    AsJson,
    ConfigPath,
    Edits,
    InEditor,
    NewPlan,
    Outputs,
    PlanChange,
    Run,
    Step,
    Subtask,
    Worker,
)
from podium.cli.lookup import find_recorded_run
from podium.cli.screen import reporting
from podium.replay import replay as replay_run
from podium.types.events import Event
from podium.types.result import Result


def replay(  # noqa: PLR0913 - one parameter for each argument and option
    run: Run,
    *,
    plan: NewPlan = None,
    edits: Edits = None,
    edit: InEditor = False,
    step: Step = None,
    subtask: Subtask = None,
    worker: Worker = None,
    config: ConfigPath = None,
    outputs: Outputs = False,
    as_json: AsJson = False,
) -> None:
    """Repeat a run from its recorded outputs, or with a changed plan.

    Recorded outputs cost nothing. With a changed plan, only the steps whose input differs are called.
    """
    with reporting() as screen:
        recorded = find_recorded_run(config, run)
        change = PlanChange(file=plan, edits=edits, edit=edit, step=step, subtask=subtask, worker=worker)
        new_plan = recorded.changed(change)

        async def job(listen: Callable[[Event], None]) -> Result:
            return await replay_run(recorded.conductor, recorded.events, plan=new_plan, on_event=listen)

        Answering(screen, as_json=as_json, outputs=outputs, recorded=True, config=config).carry_out(job)
