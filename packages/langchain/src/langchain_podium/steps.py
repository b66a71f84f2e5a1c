"""What makes the calls of a run's workers, and of its planner's model, child runs of a LangChain run.

It owns their names, tags and metadata, and the custom events a run is told in. Which run is
the parent, LangChain's own context variable says: inside a step it is the step's, so that
what a worker calls, and the steps of a nested conductor, stand under it.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import asdict, replace
from typing import Any, Final, Protocol
from uuid import UUID

from langchain_core.callbacks import (
    AsyncCallbackHandler,
    AsyncCallbackManager,
    AsyncCallbackManagerForChainRun,
    BaseCallbackHandler,
    BaseCallbackManager,
)
from langchain_core.runnables.config import (
    RunnableConfig,
    ensure_config,
    get_async_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)

from podium.secrets import scrub, scrub_data
from podium.types import Completion, Event, Result, RunEnded
from podium.usage import Usage
from podium.workers import CallMiddleware, Request, Worker

_SILENT: Final = (BaseCallbackHandler.on_custom_event, AsyncCallbackHandler.on_custom_event)


class Run(Protocol):
    """A LangChain run that can have children: of a chain, a tool, a graph's node."""

    @property
    def run_id(self) -> UUID:
        """Its id."""

    @property
    def handlers(self) -> list[BaseCallbackHandler]:
        """Who is told of it."""

    def get_child(self, tag: str | None = None) -> Any:
        """Return the manager of its children."""


def child_runs(*, stream: bool = True) -> CallMiddleware | None:
    """Return what has each call of a worker be a run of its own, under the run that goes on here.

    Each is a chain run with the worker's name, the tag `podium:step` or `podium:planner`, and
    metadata that what the worker calls has too: `podium_worker`, and of a step `podium_run_id`,
    `podium_round`, `podium_step` and `podium_attempt`.

    Args:
        stream: whether steps are asked for pieces where the run wants them; if not, they are
            asked for whole answers all the same.

    Returns:
        `None` where nobody listens: LangChain's configuration reaches the workers all the same.
    """
    if not get_async_callback_manager_for_config(ensure_config()).handlers:
        return None

    def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        whole = not stream and request.caller is not None
        return _called(worker, replace(request, stream=False) if whole else request)

    return middleware


@contextmanager
def under(children: BaseCallbackManager) -> Iterator[None]:
    """Have what is begun in the block be runs of `children`, and so under the run that these are of."""
    with _ambient(patch_config(ensure_config(), callbacks=children)):
        yield


def hears(run: Run) -> bool:
    """Say whether anybody would take the run's custom events."""
    return any(
        not handler.ignore_custom_event and type(handler).on_custom_event not in _SILENT
        for handler in run.handlers
    )


async def tell(run: Run, event: Event) -> None:
    """Send an event of Podium's as a custom event of the run: `podium_step_ended`, with the event as JSON.

    `podium_run_ended` also holds what the run took in all: `calls`, `usage`, and `cost` in USD.
    """
    data = event.to_json()
    if isinstance(event, RunEnded):
        data |= _total(event.result)
    children: AsyncCallbackManager = run.get_child()
    await children.on_custom_event(f"podium_{event.type}", data, run_id=run.run_id)


def _total(result: Result) -> dict[str, Any]:
    asked = [proposal for proposal in result.proposals if proposal.usage != Usage() or proposal.cost is None]
    calls = len(asked) + sum(outcome.attempts for outcome in result.outcomes)
    return {"calls": calls, "usage": asdict(result.usage), "cost": result.cost}


async def _called(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
    """Call a worker as a child run; what it calls meanwhile is under that run."""
    config = ensure_config()
    run = await _begun(config, worker, request)
    inside = patch_config(config, callbacks=run.get_child())
    told, written = False, list[str]()
    try:
        async with aclosing(worker.call(request)) as pieces:
            while True:
                # Set for as long as the worker runs and no longer: what reads us runs in the same context.
                with _ambient(inside):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                if isinstance(piece, Completion):
                    told = True
                    await run.on_chain_end(_output(piece))
                else:
                    written.append(piece)
                yield piece
    except GeneratorExit:  # whoever asked has left: with the answer, or because it needs none any more
        if not told:
            await run.on_chain_end({"output": scrub("".join(written))})
        raise
    except BaseException as error:
        await run.on_chain_error(error)
        raise
    if not told:
        await run.on_chain_end({"output": scrub("".join(written))})


async def _begun(config: RunnableConfig, worker: Worker, request: Request) -> AsyncCallbackManagerForChainRun:
    manager = get_async_callback_manager_for_config(config)
    caller, name = request.caller, worker.card.name
    facts: dict[str, Any] = {"podium_worker": name}
    if caller is not None:
        facts |= {"podium_run_id": caller.run_id, "podium_round": caller.round}
        facts |= {"podium_step": caller.step, "podium_attempt": caller.attempt}
    manager.add_metadata(facts)
    manager.add_tags(["podium:planner" if caller is None else "podium:step"], inherit=False)
    messages = scrub_data([message.to_wire() for message in request.messages])
    return await manager.on_chain_start(None, {"messages": messages}, name=name)


def _output(completion: Completion) -> dict[str, Any]:
    output: dict[str, Any] = {"output": scrub(completion.text)}
    if completion.tool_calls:
        output["tool_calls"] = scrub_data([dict(call) for call in completion.tool_calls])
    return output


@contextmanager
def _ambient(config: RunnableConfig) -> Iterator[None]:
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
