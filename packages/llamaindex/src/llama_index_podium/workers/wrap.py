"""Make workers from LlamaIndex objects."""

from collections.abc import Callable
from typing import Any, Final, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.llms import LLM
from llama_index.core.tools import BaseTool, QueryEngineTool
from llama_index.core.workflow import Workflow

from llama_index_podium.cards import card_of
from llama_index_podium.workers.acts import may_act
from llama_index_podium.workers.chat_engine import ChatEngineWorker
from llama_index_podium.workers.llm import LLMWorker
from llama_index_podium.workers.search import QueryEngineWorker, RetrieverWorker
from llama_index_podium.workers.tool import tool_worker
from llama_index_podium.workers.workflow import WorkflowWorker
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions
from podium.workers import Card, Worker


def as_worker(
    thing: Any,
    *,
    input_field: str | None = None,
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
        acts: whether a call may change something: see `Worker.acts`. By default (`None`), LLMs, retrievers
            and engines do not act, unless they contain a part that does, or write SQL. Workflows
            do, and tools, except those of an engine or a retriever. Agents do if a tool does, or cannot be
            seen. A class of the user's own says otherwise with the attribute `acts = False`.
        options: `card`, or parts of a card: `name`, `description`, `price`, `labels`; see
            `podium.hosts.CardOptions`.

    Raises:
        ConfigError: the object cannot be a worker or already has a card and `acts`; both a card and parts of
            one are given; or `input_field` is missing, or not for this object.
    """
    maker = CardMaker(options)
    if input_field is not None and not isinstance(thing, Workflow):
        raise ConfigError(f"{thing!r:.80} is not a workflow: remove input_field")
    if (own := maker.podium_worker(thing, acts=acts)) is not None:
        return own
    worker = _worker(thing, card_of(thing, maker), input_field)
    worker.acts = may_act(thing) if acts is None else acts
    return worker


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
    from llama_index_podium.workers.agent import AgentWorker, is_agent  # noqa: PLC0415 - loads all agents

    if not is_agent(workflow):
        return WorkflowWorker(workflow, card=card, input_field=input_field)
    if input_field is not None:
        raise ConfigError(f"agent {card.name!r} accepts a conversation: remove input_field")
    return AgentWorker(workflow, card=card)
