"""Whether a LlamaIndex object may change something in the world: see `podium.Worker.acts`."""

from typing import Any

from llama_index.core import SQLDatabase
from llama_index.core.tools import BaseTool, QueryEngineTool, RetrieverTool
from llama_index.core.workflow import Workflow

from llama_index_podium.tools import ConductorToolSpec
from llama_index_podium.workers.blocking import parts_of
from podium.hosts.workers import said_acts


def may_act(thing: object) -> bool:
    """Return whether a call of an object may change something.

    It may if a part does, or cannot be seen, such as the steps of a workflow. Models, retrievers and engines
    only read, unless they write the queries for a database of SQL.
    """
    return any(map(_acts, parts_of(thing)))


def _acts(part: Any) -> bool:
    if (said := said_acts(part)) is not None:
        return said
    if isinstance(part, BaseTool):
        return _tool_acts(part)
    if isinstance(part, Workflow):
        return _workflow_acts(part)
    return any(isinstance(held, SQLDatabase) for held in getattr(part, "__dict__", {}).values())


def _tool_acts(tool: BaseTool) -> bool:
    spec = getattr(getattr(tool, "real_fn", None), "__self__", None)
    if isinstance(spec, ConductorToolSpec):
        return spec.conductor.acts
    return type(tool) not in (QueryEngineTool, RetrieverTool)  # their parts are looked at


def _workflow_acts(workflow: Workflow) -> bool:
    """Return whether a workflow may act, apart from its tools and models, which are parts of their own."""
    from llama_index.core.agent.workflow import AgentWorkflow  # noqa: PLC0415 - slow

    if not acts_first(workflow):
        return getattr(workflow, "tool_retriever", None) is not None
    return type(workflow) is not AgentWorkflow


def acts_first(workflow: Workflow) -> bool:
    """Return whether a workflow may act before a model has answered: its class is unknown."""
    from llama_index.core.agent.workflow import FunctionAgent, ReActAgent  # noqa: PLC0415 - slow

    return type(workflow) not in (FunctionAgent, ReActAgent)
