"""Calls a user's callback with each event of a run."""

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio

from podium.errors import ListenerFailed
from podium.secrets import scrub_error
from podium.secrets.boundary import BUGS, add_place
from podium.types.events import Event
from podium.types.outcome import tell_actions
from podium.types.result import Result

Listener = Callable[[Event], None]
"""A callback that gets the events of a run as they happen."""


async def with_listener(
    listener: Listener | None, run: Callable[[Listener | None], Awaitable[Result]]
) -> Result:
    """Execute `run` and call `listener` with its events.

    If the listener raises, it is not called again, and the run continues. A bug in its code (`BUGS`)
    cancels the run.

    Raises:
        ListenerFailed: the listener raised; the error has the run's result.
        Exception: a bug in the listener's code.
    """
    if listener is None:
        return await run(None)
    raised: list[Exception] = []
    scope = anyio.CancelScope()

    def tell(event: Event) -> None:
        if not raised:
            try:
                listener(event)
            except Exception as error:  # code of the user; raised when the run has ended
                scrub_error(error)
                raised.append(error)
                if isinstance(error, BUGS):
                    add_place(error, event.run_id, "`on_event`")
                    scope.cancel()
                    return
                logging.getLogger("podium").exception("the event callback of run %s raised", event.run_id)

    with scope:
        try:
            result = await run(tell)
        except BaseException as ended:
            _copy_notes(ended, raised)  # what the run has done
            raise
    if raised and isinstance(raised[0], BUGS):
        if not scope.cancelled_caught:
            tell_actions(raised[0], result.actions)
        raise raised[0]
    if raised:
        failed = ListenerFailed(f"on_event raised {type(raised[0]).__name__}: the run continued without it")
        failed.result, failed.actions = result, result.actions
        raise failed from raised[0]
    return result


def _copy_notes(error: BaseException, others: Sequence[Exception]) -> None:
    for other in others:
        for note in getattr(error, "__notes__", ()):
            other.add_note(note)
