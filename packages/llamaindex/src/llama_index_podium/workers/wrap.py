"""Make workers from LlamaIndex objects."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import BaseTool, QueryEngineTool
from llama_index.core.tools.types import adapt_to_async_tool
from llama_index.core.workflow import Workflow

from llama_index_podium.cards import called, card_of, may_act
from llama_index_podium.sources import note
from llama_index_podium.usage import spending
from llama_index_podium.workers.engines import (
    ChatEngineWorker,
    QueryEngineWorker,
    RetrieverWorker,
    is_empty_text,
    nothing_found,
)
from llama_index_podium.workers.llm import LLMWorker
from podium.errors import ConfigError, WorkerFailed
from podium.hosts import CardMaker, CardOptions, ToolWorker, worker_errors
from podium.hosts.results import spent_completion
from podium.types import Completion
from podium.types.messages import storable
from podium.workers import Card, Worker


def tool_worker(tool: BaseTool, *, card: Card) -> ToolWorker:
    """Return a worker that calls a tool, and collects the nodes it finds."""
    made = adapt_to_async_tool(tool)

    async def call(arguments: dict[str, Any]) -> Completion:
        with (
            spending() as spent,
            worker_errors(card.name, usage=lambda: spent.known, has_run=lambda: True),
        ):
            output = await called(made, "call", **arguments)
            nodes = getattr(output.raw_output, "source_nodes", output.raw_output)
            note(nodes)
            if output.exception is not None:
                raise output.exception
            if output.is_error:
                raise WorkerFailed(f"tool {card.name!r} failed: {output.content[:300]}", maybe_paid=True)
        text = "" if output.raw_output is None and output.content == str(None) else output.content
        completion = spent_completion(storable(text), spent.usage_at_end, card)
        if nodes == [] and is_empty_text(completion.text):  # such as from a RetrieverTool
            return nothing_found(", ".join(map(str, arguments.values())), completion)
        return completion

    return ToolWorker(tool.metadata.get_parameters_dict(), call, card=card)


def as_worker(
    thing: Any,
    *,
    input_field: str | None = None,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    acts: bool | None = None,
    **options: Unpack[CardOptions],
) -> Worker:
    """Return a LlamaIndex object as a worker.

    An LLM gets messages. A retriever searches for the subtask. A query engine or a chat engine answers the
    subtask. A tool or a workflow gets its arguments from the subtask. An agent or an `AgentWorkflow` gets the
    question, the visible steps and the subtask. A `QueryEngineTool` becomes its engine, with the name and
    description of the tool. A query engine, a retriever or an LLM that contains a conductor becomes this
    conductor. A worker of Podium is returned unchanged.

    Args:
        thing: the object.
        input_field: the field of a workflow's start event from which its steps read the subtask, if the start
            event declares no fields.
        tools: tools that an LLM may call within its step: it becomes a `FunctionAgent`, or a `ReActAgent` if
            it calls no functions, with at most 20 turns (LlamaIndex's `max_iterations`).
        acts: whether a call may change something: see `Worker.acts`. By default (`None`), LLMs, retrievers
            and engines do not act, unless they contain a part that does, or write SQL. Workflows
            do, and tools, except those of an engine or a retriever. Agents do if a tool does, or cannot be
            seen. A class of the user's own says otherwise with the attribute `acts = False`.
        options: `card`, or parts of a card: `name`, `description`, `price`, `labels`; see
            `podium.hosts.CardOptions`.

    Raises:
        ConfigError: the object cannot be a worker or already has a card and `acts`; both a card and parts of
            one are given; or `input_field` is missing, or not for this object; or `tools`
            are given for another object than an LLM.
    """
    maker = CardMaker(options)
    if input_field is not None and not isinstance(thing, Workflow):
        raise ConfigError(f"{thing!r:.80} is not a workflow: remove input_field")
    if (own := maker.podium_worker(thing, acts=acts)) is not None:
        return own
    if tools:
        thing = _agent(thing, tools, card_of(thing, maker).name)
    worker = _worker(thing, card_of(thing, maker), input_field)
    worker.acts = may_act(thing) if acts is None else acts
    return worker


def _agent(llm: object, tools: Sequence[BaseTool | Callable[..., Any]], name: str) -> Workflow:
    """Return an LLM with tools as an agent; it does not stream, because OpenAI's streams report no tokens."""
    from llama_index.core.agent.workflow import FunctionAgent, ReActAgent  # noqa: PLC0415 - slow

    if not isinstance(llm, LLM):
        raise ConfigError(f"{llm!r:.80} is not an LLM: give its tools to the object itself")
    calls = isinstance(llm, FunctionCallingLLM) and llm.metadata.is_function_calling_model
    return (FunctionAgent if calls else ReActAgent)(name=name, llm=llm, tools=[*tools], streaming=False)


def _worker(thing: Any, card: Card, input_field: str | None) -> Worker:
    if isinstance(thing, Workflow):
        return _workflow_worker(thing, card, input_field)
    if type(thing) is QueryEngineTool:
        thing = thing.query_engine
    for kind, make in _KINDS:
        if isinstance(thing, kind):
            return make(thing, card=card)
    kinds = "an LLM, retriever, query engine, chat engine, agent, workflow or tool"
    raise ConfigError(f"{thing!r:.80} is not {kinds}: wrap a function in a FunctionTool")


_KINDS: Final[tuple[tuple[type, Callable[..., Worker]], ...]] = (
    (LLM, LLMWorker),
    (BaseRetriever, RetrieverWorker),
    (BaseQueryEngine, QueryEngineWorker),
    (BaseChatEngine, ChatEngineWorker),
    (BaseTool, tool_worker),
)


def _workflow_worker(workflow: Workflow, card: Card, input_field: str | None) -> Worker:
    from llama_index_podium.workers.workflows import (  # noqa: PLC0415 - loads all agents
        AgentWorker,
        WorkflowWorker,
        is_agent,
    )

    if not is_agent(workflow):
        return WorkflowWorker(workflow, card=card, input_field=input_field)
    if input_field is not None:
        raise ConfigError(f"agent {card.name!r} accepts a conversation: remove input_field")
    return AgentWorker(workflow, card=card)
