"""A conductor as a query engine, as a retriever, and as the tools of an agent."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, Unpack
from uuid import uuid4

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks import CallbackManager
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools.tool_spec.base import BaseToolSpec

from llama_index_podium.conductor import ConductedCall, FaceOptions, conductor_of
from llama_index_podium.sources import RUN, marked
from podium.aio import iterate, run_sync
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.hosts import ConductorFace, Partial
from podium.hosts.faces import run_id_of
from podium.hosts.results import check_partial, lack_of, plan_lines, run_failed
from podium.workers import Gather

_TOLD: Final = ("run_id", "status", "problem", "planner")


@ConductorFace.register
class ConductorQueryEngine(BaseQueryEngine):
    """A query engine that plans a query and has the conductor's workers execute the plan.

    `source_nodes` of a response has the nodes that were found by the steps that the answer depends on, each
    node once. In the metadata of a node, `podium_steps` has the numbers of the steps that found it. The
    `metadata` of a response has the run's id, status, planner, plan, steps, usage and cost. An incomplete
    answer is returned with `status` `partial` and the `problem`; a run without an answer raises.

    Args:
        conductor: plans and runs each query. A hosted conductor returns no steps and no nodes.
        streaming: whether responses are streamed. A streamed response is returned when the answer begins,
            with the nodes found so far. Values that are known only at the end are added at the end.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`; a streamed response
            raises it at its end.
        callback_manager: see LlamaIndex; `None` uses the callback manager of `Settings`.
        options: in place of `conductor`: `planner`, `workers`, and the other options of `Conductor`; with or
            without it `run_id`. See `FaceOptions`.

    Raises:
        TypeError: an option is unknown.
        ConfigError: there is no planner, or a conductor is given with its parts; or see `Conductor`.
        RunFailed: from each query: the run has no answer; `result` is the run's result.
        PodiumError: from each query: see `Conductor.run`.
    """

    def __init__(
        self,
        conductor: Conductor | None = None,
        *,
        streaming: bool = False,
        partial: Partial = "return",
        callback_manager: CallbackManager | None = None,
        **options: Unpack[FaceOptions],
    ) -> None:
        super().__init__(callback_manager)
        self.conductor = conductor_of(type(self), conductor, options)
        self.streaming = streaming
        self.partial: Partial = check_partial(partial)
        self.run_id = options.get("run_id")

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        call = self._call(query_bundle)
        if not self.streaming:
            return run_sync(lambda: _whole(call))
        pieces = iterate(lambda: _pieces(call))
        next(pieces)
        return StreamingResponse(pieces, call.nodes, call.metadata)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        call = self._call(query_bundle)
        if not self.streaming:
            return await _whole(call)
        pieces = _pieces(call)
        await anext(pieces)
        return AsyncStreamingResponse(pieces, call.nodes, call.metadata)

    def _call(self, query: QueryBundle) -> ConductedCall:
        asked = query.query_str
        return ConductedCall(self.conductor, asked, partial=self.partial, run=run_id_of(self.run_id, asked))

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}


async def _whole(call: ConductedCall) -> Response:
    return Response((await call.run()).text, call.nodes, call.metadata)


def _pieces(call: ConductedCall) -> AsyncGenerator[str, None]:
    """Yield the answer; first an empty text when the answer begins.

    Leaving the iteration cancels the run.
    """

    async def run(emit: Callable[[str], None]) -> None:
        begun = False
        async with aclosing(call.events(stream=True)) as events:
            async for text in events:
                if text and not begun:
                    begun = True
                    emit("")
                if text:
                    emit(text)
        call.answer()
        if not begun:
            emit("")
        if rest := call.rest():
            emit(rest)

    return events_of(run)


@ConductorFace.register
class ConductorRetriever(BaseRetriever):
    """Plans a query, and returns the nodes found by the steps that the answer depends on.

    Nodes of the same id and content become one node. A node's metadata has the steps that found it under
    `podium_steps`, and the run's id, status, problem and planner under `podium_run`. Models and embeddings
    are not shown these keys. Nodes are in the order of the plan, not of scores, because scores of two indexes
    may not be comparable.

    Args:
        conductor: plans and runs each query.
        answer: whether the answer is the first node, with the run's metadata and no score. Workers that do
            not search find no nodes; their output is only in the answer.
        partial: whether the nodes of an incomplete answer are returned, or `RunFailed` is raised. Returned
            nodes end with a node of the sentence `(Not complete: …)`; with `answer`, the first node has it.
            `RunFailed` is also raised if an incomplete answer has no nodes.
        callback_manager: see `ConductorQueryEngine`.
        options: see there. If `workers` have no `Gather`, one is added, so that a plan over several searches
            needs no model that writes an answer.

    Raises:
        TypeError: see there.
        ConfigError: see there.
        PodiumError: from each query: see there.
    """

    def __init__(
        self,
        conductor: Conductor | None = None,
        *,
        answer: bool = False,
        partial: Partial = "return",
        callback_manager: CallbackManager | None = None,
        **options: Unpack[FaceOptions],
    ) -> None:
        has_own = conductor is not None or any(isinstance(w, Gather) for w in options.get("workers", ()))
        super().__init__(callback_manager)
        self.conductor = conductor_of(type(self), conductor, options, *(() if has_own else (Gather(),)))
        self.answer = answer
        self.partial: Partial = check_partial(partial)
        self.run_id = options.get("run_id")

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_sync(lambda: self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        asked = query_bundle.query_str
        call = ConductedCall(self.conductor, asked, partial=self.partial, run=run_id_of(self.run_id, asked))
        found = await call.run()
        result = found.result
        told = {RUN: {key: call.metadata[key] for key in _TOLD}}
        nodes = [marked(node, told) for node in call.nodes]
        if self.answer:
            answer = TextNode(id_=result.run_id, text=found.text)
            nodes.insert(0, marked(NodeWithScore(node=answer), {RUN: call.metadata}))
        if not nodes and result.problem is not None:
            raise run_failed(f"no node was found ({result.problem.message})", result)
        if not self.answer and result.problem is not None:
            lack = TextNode(id_=f"{result.run_id}:lack", text=lack_of(result.problem))
            nodes.append(marked(NodeWithScore(node=lack), told))
        return nodes

    def _handle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        """Return the nodes unchanged: LlamaIndex would drop one of two nodes with the same id."""
        del query_bundle
        return nodes

    async def _ahandle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        return self._handle_recursive_retrieval(query_bundle, nodes)


@ConductorFace.register
class ConductorToolSpec(BaseToolSpec):
    """Two tools: `ask_team` plans and answers a question; `plan_for_team` only returns the plan.

    The raw output of `ask_team` is a `Response`, with the nodes behind the answer and the run's metadata.
    With a journal, a question that is asked again continues its run if that run waits, was interrupted, or
    failed after an action.

    Args:
        conductor: plans and runs each question.
        partial: whether an incomplete answer is returned, with a sentence that says so, or raised as
            `RunFailed`.
        options: see `ConductorQueryEngine`. `run_id` names the conversation whose runs are continued; without
            it, they are continued only by this object.

    Raises:
        TypeError: see there.
        ConfigError: see there.
    """

    spec_functions = [("ask_team", "aask_team"), ("plan_for_team", "aplan_for_team")]  # noqa: RUF012 - as LlamaIndex has it

    def __init__(
        self,
        conductor: Conductor | None = None,
        *,
        partial: Partial = "return",
        **options: Unpack[FaceOptions],
    ) -> None:
        self.conductor = conductor_of(type(self), conductor, options)
        self.partial: Partial = check_partial(partial)
        self._session = options.get("run_id") or uuid4().hex

    async def aask_team(self, question: str) -> Response:
        """Have a team of specialists work out a question of several parts; returns the answer."""
        return await _whole(
            ConductedCall(self.conductor, question, partial=self.partial, session=self._session)
        )

    def ask_team(self, question: str) -> Response:
        """Have a team of specialists work out a question of several parts; returns the answer."""
        return run_sync(lambda: self.aask_team(question))

    async def aplan_for_team(self, question: str) -> str:
        """Show how the team of specialists would go about a question, without doing it."""
        plan = await self.conductor.plan(question)
        lines = plan_lines(plan, self.conductor.pool.names)
        if plan.planner is not None and plan.planner.is_fallback:
            lines.append(f"(Written by the fallback planner {plan.planner.name!r}: {plan.planner.why})")
        return "\n".join(lines)

    def plan_for_team(self, question: str) -> str:
        """Show how the team of specialists would go about a question, without doing it."""
        return run_sync(lambda: self.aplan_for_team(question))
