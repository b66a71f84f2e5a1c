"""Executes the run of a job: a new run, a resumed run, or a replay."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from podium.budget import Limits
from podium.conductor import Conductor
from podium.replay import replay
from podium.run import Listener, RunOptions
from podium.run_state import fold
from podium.types import Event, Message, Plan, Result
from podium_server.api.runs.requests import JobRequest
from podium_server.http import BadRequest
from podium_server.turn import RunTurn, watched_calls


async def execute(turn: RunTurn, request: JobRequest, events: Sequence[Event], on_event: Listener) -> Result:
    """Execute a run.

    Args:
        turn: the admitted run.
        request: what to do.
        events: the recorded events of the run that is resumed or replayed; empty for a new run.
        on_event: called with each event of the run.

    Raises:
        BadRequest: a limit is higher than the limit of the model or of the API key.
        PodiumError: see `Conductor.run`, `Conductor.resume` and `podium.replay.replay`.
    """
    with turn.live.publishing(str(turn.options["run_id"])) as publish:

        def tell(event: Event) -> None:
            publish(event)
            on_event(event)

        return await _executed(turn, request, events, tell)


async def _executed(turn: RunTurn, request: JobRequest, events: Sequence[Event], tell: Listener) -> Result:
    conductor, options = turn.conductor, turn.options.copy()
    run_id = str(options["run_id"])
    options["middleware"] = watched_calls(turn.live, run_id, options.get("middleware"))
    plan = None if request.plan is None else Plan.from_json(request.plan)
    limits = _limits(conductor, options, request.limits, events if request.kind == "resume" else ())
    if request.kind == "resume":
        return await conductor.resume(
            run_id,
            plan=plan,
            policy=options.get("policy"),
            limits=limits,
            refresh=request.refresh,
            force=request.force,
            journal=options.get("journal"),
            middleware=options["middleware"],
            on_event=tell,
        )
    options["limits"] = limits
    if request.kind == "replay":
        options.pop("sampling", None)
        again = None if request.again is None else (request.again[0], request.again[1])
        return await replay(conductor, events, plan=plan, again=again, on_event=tell, **options)
    options["context"] = request.context
    query = tuple(Message.from_wire(message) for message in request.query)
    asked = query if plan is None else replace(plan, query=query)
    return await conductor.run(asked, on_event=tell, **options)


def _limits(
    conductor: Conductor, options: RunOptions, given: Mapping[str, int | float], events: Sequence[Event]
) -> Limits | None:
    """Return the limits of a run; `None` for those of the conductor, or those that the run has recorded.

    Raises:
        BadRequest: a given limit is higher than the limit of the model or of the API key.
    """
    own = options.get("limits")
    if own is None and not given:
        return None
    most = own or conductor.limits
    limits = most
    if events:
        recorded = conductor.limits.keeping(fold(events).limits)
        cost = min((each.cost for each in (recorded, most) if each.cost is not None), default=None)
        limits = replace(recorded, cost=cost)
    for name, value in given.items():
        bound = getattr(most, name)
        if bound is not None and value > bound:
            told = f"limits.{name} is {value:g}: the model and the API key allow at most {bound:g}"
            raise BadRequest(told, param=f"limits.{name}")
    return replace(limits, **given)  # type: ignore[arg-type]  # `check_limits` has checked the names
