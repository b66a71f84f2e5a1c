"""Runs a conductor as a worker of another run: the nested run answers one call of the outer run."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from hashlib import sha256
from uuid import uuid4

from podium.aio.sync import events_of
from podium.errors import ConfigError, LimitExceeded, NestedLimit, PlannerError, WorkerFailed
from podium.execution.context import ConductorSettings, RunRequest, outer_run
from podium.run.request import within_call
from podium.run.runner import Listener, RunSession, StreamedAnswer
from podium.run_state.paid import PaidResults, step_key
from podium.types.events import AnswerDelta, Event, RunEnded
from podium.types.messages import Completion, Sampling, read_query
from podium.types.result import Result
from podium.usage import Usage
from podium.workers.worker import Request, step_input_of

_PLAIN = Sampling()


async def run_nested(
    settings: ConductorSettings,
    request: Request,
    keep_open: Callable[[], AbstractAsyncContextManager[object]],
) -> AsyncGenerator[str | Completion, None]:
    """Yield the answer of a nested run, in pieces and then as a `Completion`."""
    nested, outer = nested_request(settings, request), outer_run(request.caller)
    result: Result | None = None
    streamed = StreamedAnswer()
    sessions: list[RunSession] = []

    async def run(emit: Listener) -> Result:
        def listen(event: Event) -> None:
            if outer is not None and outer.context.emit is not None:
                outer.context.emit(event)  # directly, so the events of a cancelled run are also emitted
            if event.run_id == nested.run_id:
                emit(event)

        sessions.append(RunSession(settings, nested, listen))
        async with keep_open():
            return await sessions[0].run()

    try:
        async with aclosing(events_of(run)) as events:
            async for event in events:
                if isinstance(event, RunEnded):
                    result = event.result
                elif isinstance(event, AnswerDelta) and (text := streamed.add(event)):
                    yield text
    except PlannerError as error:
        if result is not None:
            error.usage, error.cost = _bill(result, sessions[0].before)
        raise
    assert result is not None  # the last event of a run has it
    yield _completion(result, *_bill(result, sessions[0].before))


def nested_request(settings: ConductorSettings, asked: Request) -> RunRequest:
    """Return the request for a run that answers one call of an outer run."""
    caller, outer = asked.caller, outer_run(asked.caller)
    run_id, is_new_id = uuid4().hex, True
    if caller is not None and outer is not None and outer.context.journal is not None:
        key = step_key(settings.name, step_input_of(asked), asked.tool_messages)
        place = f"{caller.run_id}/{caller.round}/{caller.step}/{key}"
        run_id, is_new_id = sha256(place.encode()).hexdigest()[:32], False
    paid_results = PaidResults() if asked.tools else None  # so that the next turn finds the steps
    if caller is not None and outer is not None and asked.tool_messages:
        with suppress(ConfigError):  # the pool has changed: it is planned again
            recorded, names = outer.context.paid_results, settings.pool.names
            paid_results = recorded.nested_in(caller.round, caller.step, names) or paid_results
    request = RunRequest(
        run_id=run_id,
        is_new_id=is_new_id,
        paid_results=paid_results,
        query=read_query(asked.messages[: len(asked.messages) - len(asked.tool_messages)]),
        context=dict(step_input_of(asked).texts),
        labels=settings.labels if caller is None else caller.labels | settings.labels,
        tools=asked.tools,
        sampling=asked.sampling if asked.tool_messages or asked.tools else _PLAIN,
        tool_messages=asked.tool_messages,
        stream=asked.stream,
        middleware=None if outer is None else outer.context.request.middleware,
        caller=caller,
    )
    return within_call(request)


def _completion(result: Result, usage: Usage, cost: float | None) -> Completion:
    """Return the answer of a nested run, or raise `WorkerFailed` or `NestedLimit` if it has none."""
    problem = result.problem
    if not (result.answer or result.tool_calls) or result.status == "waiting":
        message = f"the nested run has no answer: {'no answer' if problem is None else problem.message}"
        kind = NestedLimit if problem is not None and problem.code == LimitExceeded.code else WorkerFailed
        raise kind(message, maybe_paid=True, usage=usage, cost=cost)
    missing = None if problem is None else problem.message
    nested = [dict(outcome.data) for outcome in result.outcomes if outcome.data is not None]
    return Completion(
        result.answer,
        usage=usage,
        cost=cost,
        missing=missing,
        tool_calls=result.tool_calls,
        data={"nested": nested} if nested else None,
    )


def _bill(result: Result, before: Result | None) -> tuple[Usage, float | None]:
    """Return the tokens and the cost of the call that a nested run answers."""
    usage, cost = result.usage, result.cost
    if before is not None:
        usage = usage.beyond(before.usage)
        cost = None if cost is None or before.cost is None else max(cost - before.cost, 0.0)
    return usage, cost
