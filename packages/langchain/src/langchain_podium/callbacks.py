"""A conductor's run as a run of LangChain: its id, and what callbacks are told: calls, events, no secrets.

LangChain's own context variable determines the parent of a run. Inside a step, the parent is the run of the
step. So the calls of a worker, and the steps of a nested conductor, are below the run of their step. Events
are custom events of the run, and entries of LangGraph's custom stream: `podium_plan_ready` and so on.

LangChain passes the output of a run to callbacks, and returns the same object to the caller, who must get it
unchanged. So Podium wraps the callback manager that LangChain creates for each run: the wrapper removes
secrets from its arguments.

A task of LangGraph is one execution of a node, or of a function of the functional API, at one checkpoint.
Each try of a task continues the runs of the tries before, by their ids.
"""

import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import asdict
from functools import wraps
from hashlib import sha256
from itertools import count
from threading import Lock
from typing import Any, Final
from uuid import UUID

from langchain_core.callbacks import (
    AsyncCallbackHandler,
    AsyncCallbackManagerForChainRun,
    BaseCallbackHandler,
)
from langchain_core.callbacks.manager import AsyncParentRunManager, BaseRunManager
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables.config import (
    RunnableConfig,
    ensure_config,
    get_async_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)

from langchain_podium.graph.around import RUNTIME
from podium.conductor import Conductor
from podium.errors import PodiumError
from podium.secrets import scrub, scrub_data, scrub_error
from podium.types import AnswerDelta, Completion, Event, Message, Plan, PlanReady, Result, RunEnded
from podium.types.events import PIECES
from podium.usage import Usage
from podium.workers import CallMiddleware, Request, Worker


def child_runs() -> CallMiddleware | None:
    """Return a middleware that makes each call of a worker a child run of the current run.

    Each child run is a chain run. It has the name of the worker, the tag `podium:step` or `podium:planner`,
    and metadata that calls of the worker inherit; for a step they name the run, the round and the step.
    `None` if there are no callbacks: workers then get LangChain's configuration without a middleware.
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
            await run.on_chain_end({"output": "".join(written)})
        raise
    except BaseException as error:  # handlers also get a cancellation
        await run.on_chain_error(error)
        raise
    if not told:
        await run.on_chain_end({"output": "".join(written)})


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
    run = await manager.on_chain_start(None, {"messages": messages}, name=name)
    scrub_run(run)
    return run


def _output(completion: Completion) -> dict[str, Any]:
    calls = [dict(call) for call in completion.tool_calls]
    return {"output": completion.text, **({"tool_calls": calls} if calls else {})}


@contextmanager
def ambient(config: RunnableConfig) -> Iterator[None]:
    """Make a configuration the one of LangChain's context in the block."""
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


_SILENT: Final = (BaseCallbackHandler.on_custom_event, AsyncCallbackHandler.on_custom_event)


def hears(run: AsyncParentRunManager) -> bool:
    """Return whether a handler of the run accepts custom events."""
    return any(
        not handler.ignore_custom_event and type(handler).on_custom_event not in _SILENT
        for handler in run.handlers
    )


async def tell(run: AsyncParentRunManager, event: Event) -> None:
    """Send a Podium event as a custom event of the run."""
    await run.get_child().on_custom_event(f"podium_{event.type}", told(event), run_id=run.run_id)


def told(event: Event) -> dict[str, Any]:
    """Return an event as JSON; the end of a run has its totals.

    These are `calls`, `usage`, `cost` in USD (`None` if it is unknown), and `maybe_paid`: whether `cost`
    includes calls that may not be billed, such as a call that timed out.
    """
    data = event.to_json()
    if isinstance(event, RunEnded):
        result = event.result
        asked = [each for each in result.proposals if each.usage != Usage() or each.cost is None]
        data["calls"] = len(asked) + sum(outcome.attempts for outcome in result.outcomes)
        data |= {"usage": asdict(result.usage), "cost": result.cost, "maybe_paid": result.maybe_paid}
    return data


def stream_events(
    writer: Callable[[Any], None], workers: Sequence[str], *, has_pieces: bool
) -> Callable[[Event], None] | None:
    """Return a listener that sends a run's events to the custom stream of a graph; `None` if nobody reads it.

    `has_pieces` is whether pieces of the texts of plans and steps are sent, too. The answer is a step's text.
    """
    # A LangGraph writer without a closure discards its input: the stream was not requested.
    module, closure = getattr(writer, "__module__", ""), getattr(writer, "__closure__", ())
    if str(module).startswith("langgraph.") and closure is None:
        return None
    unsent = (AnswerDelta,) if has_pieces else PIECES

    def listen(event: Event) -> None:
        if not isinstance(event, unsent):
            data = told(event)
            if isinstance(event, PlanReady):
                data["mermaid"] = Plan.from_json(data["plan"]).to_mermaid(workers, event.actions)
            writer({"name": f"podium_{event.type}", "data": data})

    return listen


_ENDS = ("on_chain_end", "on_chain_error", "on_llm_end", "on_llm_error", "on_llm_new_token")


def scrub_run(run: BaseRunManager | None) -> None:
    """Wrap a run's manager so that callbacks get its output or error without secrets."""
    for name in _ENDS:
        tell = getattr(run, name, None)
        if tell is not None and not hasattr(tell, "scrubs"):
            setattr(run, name, _scrubbing(tell))


def shown(value: Any) -> Any:
    """Return an input or output without secrets; an object without secrets is returned unchanged."""
    if isinstance(value, BaseException):
        return value if scrub_error(value) else PodiumError(scrub(repr(value)))
    return value if scrub(repr(value)) == repr(value) else _clean(value)


def _clean(value: object) -> Any:  # noqa: PLR0911 - one case for each kind
    match value:
        case str():
            return scrub(value)
        case list() | tuple():
            return [shown(item) for item in value]
        case dict():
            return {scrub(key): shown(item) for key, item in value.items()}
        case Result():
            return RunEnded.of(value).to_json()["result"]
        case BaseMessage():
            return messages_from_dict([scrub_data(message_to_dict(value))])[0]
        case PromptValue():
            return [shown(message) for message in value.to_messages()]
        case ChatGeneration():
            return type(value)(message=shown(value.message), generation_info=shown(value.generation_info))
        case LLMResult():
            generations = [[shown(each) for each in several] for several in value.generations]
            told = {"generations": generations, "llm_output": shown(value.llm_output)}
            return value.model_copy(update=told)
    return scrub(repr(value))


def _scrubbing(tell: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a run's manager that passes on its arguments without secrets."""

    @wraps(tell)
    def scrubbing(*args: Any, **facts: Any) -> Any:
        return tell(*map(shown, args), **{name: shown(fact) for name, fact in facts.items()})

    scrubbing.scrubs = True  # type: ignore[attr-defined]
    return scrubbing


_MOST: Final = 10_000
"""Maximum questions that are remembered; the oldest is removed first."""
_numbers: Final = OrderedDict[Any, set[int]]()
"""The numbers of the runs that are in progress or have answered, by the try of a task and the question."""
_lock: Final = Lock()


@contextmanager
def run_in_task(
    conductor: Conductor, asked: Sequence[Message] | Plan, run_id: UUID, *, is_given: bool = False
) -> Iterator[str | None]:
    """Yield the id of the recorded run that the block executes; `None` without a journal.

    It is LangChain's `run_id` if the caller has given it, or outside of LangGraph's tasks. The k-th answer to
    a question in a task has the same id in all tries of the task. A block that raises has no answer, so the
    next block with the same question gets the same id.
    """
    runtime = ensure_config().get("configurable", {}).get(RUNTIME)
    task = None if is_given else getattr(runtime, "execution_info", None)
    if conductor.journal is None or task is None:
        yield None if conductor.journal is None else str(run_id)
        return
    said = asked.to_json() if isinstance(asked, Plan) else [message.to_wire() for message in asked]
    question = json.dumps(
        [task.thread_id, task.checkpoint_ns, task.task_id, conductor.card.name, said], sort_keys=True
    )
    attempt = task.node_first_attempt_time, task.node_attempt, question
    with _lock:
        taken = _numbers.setdefault(attempt, set())
        number = next(each for each in count() if each not in taken)
        taken.add(number)
        while len(_numbers) > _MOST:
            _numbers.popitem(last=False)
    try:
        yield sha256(f"{question} {number}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    except BaseException:  # also after a cancellation: the try may be taken again
        with _lock:
            taken.discard(number)
        raise
