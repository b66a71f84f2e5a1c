"""A conductor as a query engine: responses, whole or streamed, and the prompts of its workers."""

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.llms import LLM
from llama_index.core.prompts.mixin import PromptDictType, PromptMixin, PromptMixinType
from llama_index.core.schema import QueryBundle

from llama_index_podium.conducted import ConductedCall, bound_conductor
from llama_index_podium.planner import check_options, conductor_of
from llama_index_podium.tracing import Told
from llama_index_podium.workers.llm import LLMWorker
from llama_index_podium.workers.search import QueryEngineWorker, RetrieverWorker
from podium.aio import iterate, run_sync
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.hosts import ConductorFace, Partial
from podium.hosts.results import check_partial
from podium.planners import Planner
from podium.policy import Policy
from podium.secrets import scrub
from podium.workers import Worker

_PLANNER = "planner"


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
        conductor: the conductor that plans and runs each query. A hosted conductor returns no steps and no
            nodes.
        streaming: whether responses are streamed. A streamed response is returned when the answer begins,
            with the nodes found so far. Values that are known only at the end are added at the end.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`; a streamed response
            raises it at its end.
        labels: labels of each query; see `Conductor.bind`.
        policy: applies in addition to the conductor's policy.
        callback_manager: gets the queries and steps; `None` uses the callback manager of `Settings`.

    Raises:
        TypeError: an option is unknown.
        ConfigError: the first argument is not a conductor.
        RunFailed: from each query: the run has no answer; `result` is the run's result.
        PodiumError: from each query: see `Conductor.run`.
    """

    def __init__(
        self,
        conductor: Conductor,
        *,
        streaming: bool = False,
        partial: Partial = "return",
        labels: Collection[str] = (),
        policy: Policy | None = None,
        callback_manager: CallbackManager | None = None,
        **unknown: Any,
    ) -> None:
        check_options(
            "ConductorQueryEngine",
            unknown,
            takes=("streaming", "partial", "labels", "policy", "callback_manager"),
        )
        super().__init__(callback_manager)
        self.conductor = bound_conductor(conductor, "ConductorQueryEngine", labels, policy)
        self.streaming = streaming
        self.partial: Partial = check_partial(partial)

    @classmethod
    def from_defaults(
        cls,
        workers: Sequence[Any],
        planner: LLM | Planner | None = None,
        *,
        streaming: bool = False,
        partial: Partial = "return",
        callback_manager: CallbackManager | None = None,
        **options: Any,
    ) -> "ConductorQueryEngine":
        """Return an engine with a new conductor.

        Args:
            workers: retrievers, query engines, LLMs, tools, or workers of Podium.
            planner: an LLM, or a planner of Podium; `None` uses `Settings.llm`.
            streaming: as for the engine.
            partial: as for the engine.
            callback_manager: as for the engine.
            options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, and so on;
                `fallback_planner` may be an LLM.

        Raises:
            TypeError: an option is not an option of `Conductor`.
            ConfigError: see `Conductor`.
        """
        conductor = conductor_of(
            planner,
            workers,
            face="ConductorQueryEngine.from_defaults",
            takes=("streaming", "partial", "callback_manager"),
            **options,
        )
        return cls(conductor, streaming=streaming, partial=partial, callback_manager=callback_manager)

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        if not self.streaming:
            return run_sync(lambda: self._whole(query_bundle))
        call = self._call(query_bundle)
        pieces = iterate(lambda: _pieces(call, self.callback_manager, query_bundle))
        next(pieces)
        return StreamingResponse(pieces, call.nodes, call.metadata)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        if not self.streaming:
            return await self._whole(query_bundle)
        call = self._call(query_bundle)
        pieces = _pieces(call, self.callback_manager, query_bundle)
        await anext(pieces)
        return AsyncStreamingResponse(pieces, call.nodes, call.metadata)

    async def _whole(self, query: QueryBundle) -> Response:
        payload: dict[Any, Any] = {EventPayload.QUERY_STR: scrub(query.query_str)}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as told:
            call = self._call(query)
            answer = await call.run()
            response = Response(answer.text, call.nodes, call.metadata)
            shown = replace(response, response=scrub(answer.text))
            told.on_end(payload={EventPayload.RESPONSE: shown})
        return response

    def _call(self, query: QueryBundle) -> ConductedCall:
        return ConductedCall(self.conductor, self.callback_manager, query.query_str, partial=self.partial)

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


def _pieces(call: ConductedCall, callbacks: CallbackManager, query: QueryBundle) -> AsyncGenerator[str, None]:
    """Yield the answer; first an empty text when the answer begins.

    Leaving the iteration cancels the run.

    Raises:
        RunFailed: there is no answer, or it differs from the text already yielded.
    """

    async def run(emit: Callable[[str], None]) -> None:
        told = Told(callbacks, CBEventType.QUERY, {EventPayload.QUERY_STR: scrub(query.query_str)})
        begun = False
        try:
            with told.inside():  # the steps must be below the query's event
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
        finally:
            told.end({EventPayload.RESPONSE: scrub(call.text)})

    return events_of(run)


def _prompted(worker: Worker) -> PromptMixin | None:
    """Return the object of a worker that has prompts."""
    if isinstance(worker, QueryEngineWorker):
        return worker.engine
    if isinstance(worker, RetrieverWorker):
        return worker.retriever
    return worker if isinstance(worker, LLMWorker) else None
