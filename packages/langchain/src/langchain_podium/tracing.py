"""Make the calls of a run's workers, and of its planner's model, child runs of a LangChain run.

The module sets their names, tags and metadata. LangChain's own context variable determines the parent of a
run. Inside a step, the parent is the run of the step. So the calls of a worker, and the steps of a nested
conductor, are below the run of their step.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun
from langchain_core.runnables.config import (
    RunnableConfig,
    ensure_config,
    get_async_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)

from podium.errors import PodiumError
from podium.secrets import scrub, scrub_data, scrub_error
from podium.types import Completion
from podium.workers import CallMiddleware, Request, Worker


def child_runs() -> CallMiddleware | None:
    """Return a middleware that makes each call of a worker a child run of the current run.

    Each child run is a chain run. It has the name of the worker, the tag `podium:step` or `podium:planner`,
    and metadata that calls of the worker inherit. The metadata have `podium_worker`; for a step also
    `podium_run_id`, `podium_round`, `podium_step` and `podium_attempt`.

    Returns:
        `None` if there are no callbacks. Workers then get LangChain's configuration without a middleware.
    """
    has_handlers = bool(get_async_callback_manager_for_config(ensure_config()).handlers)
    return call_as_child_run if has_handlers else None


def thread_of(config: RunnableConfig) -> str | None:
    """Return the id of LangGraph's thread; `None` outside a thread."""
    thread = config.get("configurable", {}).get("thread_id")
    return None if thread is None else str(thread)


async def call_as_child_run(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
    """Call a worker as a child run of the current run; the worker's calls are below that child run."""
    config = ensure_config()
    run = await _begun(config, worker, request)
    inside = patch_config(config, callbacks=run.get_child())
    told, written = False, list[str]()
    try:
        async with aclosing(worker.call(request)) as pieces:
            while True:
                # Set only while the worker runs, because the reader of this generator has the same context.
                with ambient(inside):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                if isinstance(piece, Completion):
                    told = True
                    await run.on_chain_end(_output(piece))
                else:
                    written.append(piece)
                yield piece
    except GeneratorExit:  # the caller has left: it has the answer, or no longer needs it
        if not told:
            await run.on_chain_end({"output": scrub("".join(written))})
        raise
    except BaseException as error:  # handlers also get a cancellation
        await run.on_chain_error(error if scrub_error(error) else PodiumError(scrub(repr(error))))
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
        facts |= {"podium_path": caller.path} if caller.path else {}
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
def ambient(config: RunnableConfig) -> Iterator[None]:
    """Make a configuration the one of LangChain's context in the block."""
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
