"""A conductor as a query engine, as a retriever, and as the tools of an agent."""

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.llms import LLM
from llama_index.core.prompts.mixin import PromptDictType, PromptMixin, PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools.tool_spec.base import BaseToolSpec

from llama_index_podium.conductor import ConductedCall, Parts, conductor_of, run_id_of
from llama_index_podium.sources import RUN, marked
from llama_index_podium.workers.engines import QueryEngineWorker, RetrieverWorker
from llama_index_podium.workers.llm import LLMWorker
from podium.aio import iterate, run_sync
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.hosts import ConductorFace, Partial
from podium.hosts.results import check_partial, lack_of, plan_lines, run_failed
from podium.planners import Planner
from podium.policy import Policy
from podium.secrets import scrub
from podium.workers import Gather, Worker

_PLANNER: Final = "planner"
_TOLD: Final = ("run_id", "status", "problem", "planner")


@ConductorFace.register
class ConductorQueryEngine(BaseQueryEngine):
    """A query engine that plans a query and has the conductor's workers execute the plan.

    `source_nodes` of a response has the nodes that were found by the steps that the answer depends on, each
    node once. In the metadata of a node, `podium_steps` has the numbers of the steps that found it. The
    `metadata` of a response has the run's id, status, planner, plan, steps, usage and cost. An incomplete
    answer is returned with `status` `partial` and the `problem`; a run without an answer raises.

    Prompts: `<worker>:task_prompt` and `planner:task_prompt` of LLMs, where `{task}` is the prompt that
    Podium writes; and the prompts of retrievers and engines, as `<worker>:<prompt>`.

    Args:
        conductor: plans and runs each query, instead of `planner`, `workers` and the other options of
            `Conductor`. A hosted conductor returns no steps and no nodes.
        planner: writes the plans: an LLM, or a planner of Podium; `None` uses `Settings.llm`, if it is set.
        workers: retrievers, query engines, LLMs, tools, and all else that `as_worker` accepts.
        streaming: whether responses are streamed. A streamed response is returned when the answer begins,
            with the nodes found so far. Values that are known only at the end are added at the end.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`; a streamed response
            raises it at its end.
        run_id: prefix of the runs' ids in the conductor's journal; a hash of the query follows it. The same
            query, also in a new process, continues its run. With `None`, each query is a new run.
        labels: labels of each query; see `Conductor.bind`.
        policy: applies in addition to the conductor's policy.
        callback_manager: gets the queries; `None` uses the callback manager of `Settings`.
        options: further options of `podium.Conductor`: `limits`, `journal`, and so on; `fallback_planner` may
            be an LLM.

    Raises:
        TypeError: an option is unknown.
        ConfigError: there is no planner, or a conductor is given with its parts; or see `Conductor`.
        RunFailed: from each query: the run has no answer; `result` is the run's result.
        PodiumError: from each query: see `Conductor.run`.
    """

    def __init__(  # noqa: PLR0913 - the facts of one engine
        self,
        conductor: Conductor | None = None,
        *,
        planner: LLM | Planner | None = None,
        workers: Sequence[Any] = (),
        streaming: bool = False,
        partial: Partial = "return",
        run_id: str | None = None,
        labels: Collection[str] = (),
        policy: Policy | None = None,
        callback_manager: CallbackManager | None = None,
        **options: Any,
    ) -> None:
        parts = Parts(conductor, planner, workers, labels, policy, run_id)
        takes = ("streaming", "partial", "callback_manager")
        super().__init__(callback_manager)
        self.conductor = conductor_of("ConductorQueryEngine", parts, options, takes)
        self.streaming = streaming
        self.partial: Partial = check_partial(partial)
        self.run_id = run_id

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        call = self._call(query_bundle)
        with self._told(query_bundle) as end:
            if not self.streaming:
                return end(run_sync(lambda: _whole(call)))
            pieces = iterate(lambda: _pieces(call))
            next(pieces)
            return StreamingResponse(pieces, call.nodes, call.metadata)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        call = self._call(query_bundle)
        with self._told(query_bundle) as end:
            if not self.streaming:
                return end(await _whole(call))
            pieces = _pieces(call)
            await anext(pieces)
            return AsyncStreamingResponse(pieces, call.nodes, call.metadata)

    @contextmanager
    def _told(self, query: QueryBundle) -> Iterator[Callable[[Response], Response]]:
        """Tell the callback manager of a query, and of its whole response if the yielded function gets it."""
        payload: dict[Any, Any] = {EventPayload.QUERY_STR: scrub(query.query_str)}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as told:

            def end(response: Response) -> Response:
                shown = replace(response, response=scrub(response.response or ""))
                told.on_end(payload={EventPayload.RESPONSE: shown})
                return response

            yield end

    def _call(self, query: QueryBundle) -> ConductedCall:
        asked = query.query_str
        return ConductedCall(self.conductor, asked, partial=self.partial, run=run_id_of(self.run_id, asked))

    def _get_prompt_modules(self) -> PromptMixinType:
        modules: dict[str, PromptMixin] = {}
        planner = self.conductor.planner.worker
        if isinstance(planner, LLMWorker):
            modules[_PLANNER] = planner
        for worker in self.conductor.pool:
            module = _prompted(worker)
            if module is not None:
                name = worker.card.name.replace(":", "_")
                while name in modules:
                    name += "_"
                modules[name] = module
        return modules

    def update_prompts(self, prompts_dict: PromptDictType) -> None:
        """Update prompts; prompts that are not listed do not change.

        Raises:
            ValueError: a worker has no prompts, or not the named prompt; then no prompt is updated.
            ConfigError: a `task_prompt` has no `{task}`, or has another placeholder.
        """
        modules = self._get_prompt_modules()
        found: list[tuple[PromptMixin, PromptDictType]] = []
        for key, prompt in prompts_dict.items():
            name, _, rest = key.partition(":")  # LlamaIndex's own method does not support keys of three parts
            if name not in modules:
                raise ValueError(f"no worker {name!r} has prompts: known are {', '.join(modules)}")
            if rest not in (known := modules[name].get_prompts()):
                raise ValueError(f"worker {name!r} has no prompt {rest!r}: it has {', '.join(known)}")
            found.append((modules[name], {rest: prompt}))
        for module, prompts in found:
            module.update_prompts(prompts)


async def _whole(call: ConductedCall) -> Response:
    return Response((await call.run()).text, call.nodes, call.metadata)


def _pieces(call: ConductedCall) -> AsyncGenerator[str, None]:
    """Yield the answer; first an empty text when the answer begins.

    Leaving the iteration cancels the run.

    Raises:
        RunFailed: there is no answer, or it differs from the text already yielded.
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


def _prompted(worker: Worker) -> PromptMixin | None:
    """Return the object of a worker that has prompts."""
    if isinstance(worker, QueryEngineWorker):
        return worker.engine
    if isinstance(worker, RetrieverWorker):
        return worker.retriever
    return worker if isinstance(worker, LLMWorker) else None


@ConductorFace.register
class ConductorRetriever(BaseRetriever):
    """Plans a query, and returns the nodes found by the steps that the answer depends on.

    Nodes of the same id and content become one node. A node's metadata has the steps that found it under
    `podium_steps`, and the run's id, status, problem and planner under `podium_run`. Models and embeddings
    are not shown these keys. Nodes are in the order of the plan, not of scores, because scores of two indexes
    may not be comparable.

    Args:
        conductor: as for `ConductorQueryEngine`, like all arguments that are not listed.
        planner: see there.
        workers: see there. If they have no `Gather`, one is added, so that a plan over several searches needs
            no model that writes an answer.
        answer: whether the answer is the first node, with the run's metadata and no score. Workers that do
            not search find no nodes; their output is only in the answer.
        partial: whether the nodes of an incomplete answer are returned, or `RunFailed` is raised. Returned
            nodes end with a node of the sentence `(Not complete: …)`; with `answer`, the first node has it.
            `RunFailed` is also raised if an incomplete answer has no nodes.
        run_id: see there.
        labels: see there.
        policy: see there.
        callback_manager: see there.
        options: see there.

    Raises:
        TypeError: as from `ConductorQueryEngine`, also the other errors.
        ConfigError: see there.
        RunFailed: see there.
        PodiumError: see there.
    """

    def __init__(  # noqa: PLR0913 - the facts of one retriever
        self,
        conductor: Conductor | None = None,
        *,
        planner: LLM | Planner | None = None,
        workers: Sequence[Any] = (),
        answer: bool = False,
        partial: Partial = "return",
        run_id: str | None = None,
        labels: Collection[str] = (),
        policy: Policy | None = None,
        callback_manager: CallbackManager | None = None,
        **options: Any,
    ) -> None:
        parts = Parts(conductor, planner, workers, labels, policy, run_id)
        gathers = () if any(isinstance(worker, Gather) for worker in workers) else (Gather(),)
        super().__init__(callback_manager)
        takes = ("answer", "partial", "callback_manager")
        self.conductor = conductor_of("ConductorRetriever", parts, options, takes, gathers)
        self.answer = answer
        self.partial: Partial = check_partial(partial)
        self.run_id = run_id

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
        conductor: as for `ConductorQueryEngine`, like all arguments that are not listed.
        planner: see there.
        workers: see there.
        partial: whether an incomplete answer is returned, with a sentence that says so, or raised as
            `RunFailed`.
        run_id: the conversation whose runs are continued; `None` means that they are continued only by this
            object.
        labels: see there.
        policy: see there.
        options: see there.

    Raises:
        TypeError: as from `ConductorQueryEngine`, also the other errors.
        ConfigError: see there.
    """

    spec_functions = [("ask_team", "aask_team"), ("plan_for_team", "aplan_for_team")]  # noqa: RUF012 - as LlamaIndex has it

    def __init__(  # noqa: PLR0913 - the facts of one face
        self,
        conductor: Conductor | None = None,
        *,
        planner: LLM | Planner | None = None,
        workers: Sequence[Any] = (),
        partial: Partial = "return",
        run_id: str | None = None,
        labels: Collection[str] = (),
        policy: Policy | None = None,
        **options: Any,
    ) -> None:
        parts = Parts(conductor, planner, workers, labels, policy, run_id)
        self.conductor = conductor_of("ConductorToolSpec", parts, options, ("partial",))
        self.partial: Partial = check_partial(partial)
        self._session = uuid4().hex if run_id is None else run_id

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
