"""A conductor as a query engine: responses, whole or streamed, and the prompts of its workers."""

from collections.abc import AsyncGenerator, Callable, Sequence
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

from llama_index_podium.conducted import ConductedCall
from llama_index_podium.planner import check_conductor, check_options, conductor_of
from llama_index_podium.tracing import Told
from llama_index_podium.workers.llm import LLMWorker
from llama_index_podium.workers.search import QueryEngineWorker, RetrieverWorker
from podium.aio import events_of, iterate, run_sync
from podium.conductor import Conductor
from podium.hosted import HostedConductor
from podium.hosts import ConductorFace, Partial, check_partial
from podium.planners import Planner
from podium.secrets import scrub
from podium.workers import Worker

_PLANNER = "planner"


@ConductorFace.register
class ConductorQueryEngine(BaseQueryEngine):
    """Answers a query by planning it and having the conductor's workers carry the plan out.

    A response has as `source_nodes` the nodes that the steps behind the answer found, each
    once, with the steps that found it under `podium_steps` of its metadata. Its `metadata`
    holds the run's id, status, planner, plan, steps, usage and cost. An answer that lacks something
    is returned, with `status` `partial` and the `problem`; a run without an answer raises.

    Prompts: `<worker>:task_prompt` and `planner:task_prompt` of LLMs, whose `{task}` is what
    Podium writes; and those of retrievers and engines, as `<worker>:<theirs>`.

    Args:
        conductor: the conductor that answers. A hosted one shows neither steps nor nodes.
        streaming: whether responses are streamed: they come once the answer is begun, with the
            nodes it is made of; what is known only at its end is added to them then.
        partial: whether an answer that lacks something is returned, or raised as `RunFailed`; a
            streamed one is raised at its end.
        callback_manager: is told of queries and steps; `None` takes that of `Settings`.

    Raises:
        TypeError: there is an option that it does not take.
        ConfigError: the first argument is no conductor.
        RunFailed: from each query: the run has no answer; `result` is the run's.
        PodiumError: from each query: as `Conductor.run`.
    """

    def __init__(
        self,
        conductor: Conductor | HostedConductor,
        *,
        streaming: bool = False,
        partial: Partial = "return",
        callback_manager: CallbackManager | None = None,
        **unknown: Any,
    ) -> None:
        check_conductor(conductor, "ConductorQueryEngine")
        check_options("ConductorQueryEngine", unknown, takes=("streaming", "partial", "callback_manager"))
        super().__init__(callback_manager)
        self.conductor = conductor
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
        """Return an engine over a conductor made for it.

        Args:
            workers: retrievers, query engines, LLMs, tools, or workers of Podium's.
            planner: an LLM, or a planner of Podium's; `None` takes `Settings.llm`.
            streaming: as for the engine.
            partial: as for the engine.
            callback_manager: as for the engine.
            options: what else `podium.Conductor` takes: `limits`, `policy`, `journal`, and so on;
                `fallback_planner` may be an LLM.

        Raises:
            TypeError: an option is not one of `Conductor`'s.
            ConfigError: as `Conductor`.
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
        if isinstance(self.conductor, HostedConductor):
            return modules  # it shows no planner and no workers
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
        """Update prompts; others remain in place.

        Raises:
            ValueError: there is no worker with prompts of this name, or it has no such prompt; no prompt is
                updated then.
            ConfigError: a `task_prompt` has no `{task}`, or has another placeholder.
        """
        modules = self._get_prompt_modules()
        found: list[tuple[PromptMixin, PromptDictType]] = []
        for key, prompt in prompts_dict.items():
            name, _, rest = key.partition(":")  # LlamaIndex's own takes no names of three parts apart
            if name not in modules:
                raise ValueError(f"no worker {name!r} has prompts: those that do are {', '.join(modules)}")
            if rest not in (known := modules[name].get_prompts()):
                raise ValueError(f"worker {name!r} has no prompt {rest!r}: it has {', '.join(known)}")
            found.append((modules[name], {rest: prompt}))
        for module, prompts in found:
            module.update_prompts(prompts)


def _pieces(call: ConductedCall, callbacks: CallbackManager, query: QueryBundle) -> AsyncGenerator[str, None]:
    """Yield the answer; first an empty piece, once the steps before it are over.

    Leaving the iteration cancels the run.

    Raises:
        RunFailed: there is no answer, or another than what was yielded of it.
    """

    async def run(emit: Callable[[str], None]) -> None:
        told = Told(callbacks, CBEventType.QUERY, {EventPayload.QUERY_STR: scrub(query.query_str)})
        begun = False
        try:
            with told.inside():  # the steps are to be under the query's event
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
    """Return what of a worker has prompts."""
    if isinstance(worker, QueryEngineWorker):
        return worker.engine
    if isinstance(worker, RetrieverWorker):
        return worker.retriever
    return worker if isinstance(worker, LLMWorker) else None
