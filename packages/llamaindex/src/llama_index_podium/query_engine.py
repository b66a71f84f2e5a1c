"""A conductor as a query engine.

It owns what a query is to a conductor, and what a run's result is as a response: its text,
the nodes behind it, its metadata, and what is an error.
"""

from collections.abc import AsyncGenerator, Sequence
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
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_podium.planner import conductor_of
from llama_index_podium.result_metadata import metadata_of
from llama_index_podium.sources import behind, merge
from llama_index_podium.tracing import Steps, Told
from llama_index_podium.workers.llm import LLMWorker
from llama_index_podium.workers.search import QueryEngineWorker, RetrieverWorker
from podium.aio import iterate, run_sync
from podium.conductor import Conductor
from podium.hosts import (
    ConductorFace,
    Partial,
    answered,
    check_partial,
    plan_metadata,
    whole_answers,
)
from podium.planners import Planner
from podium.run import StreamedAnswer
from podium.secrets import scrub
from podium.types import AnswerDelta, Event, Outcome, Plan, PlanReady, RunEnded, StepEnded
from podium.workers import Worker

_PLANNER = "planner"


@ConductorFace.register
class ConductorQueryEngine(BaseQueryEngine):
    """Answers a query by planning it and having the conductor's workers carry the plan out.

    A response has as `source_nodes` the nodes that the steps behind the answer found, each
    once, with the steps that found it under `podium_steps` of its metadata. Its `metadata`
    holds the run's id, status, plan, steps, usage and cost. An answer that lacks something is
    returned, with `status` `partial` and the `problem`; a run without an answer raises.

    Prompts: `<worker>:task_prompt` and `planner:task_prompt` of LLMs, whose `{task}` is what
    Podium writes; and those of retrievers and engines, as `<worker>:<theirs>`.

    Args:
        conductor: who answers.
        streaming: whether responses are streamed: they come once the answer is begun, with the
            nodes it is made of; what is known only at its end is added to them then.
        partial: whether an answer that lacks something is returned, or raised as `RunFailed`; a
            streamed one is raised at its end.
        callback_manager: who is told of queries and steps; `None` takes that of `Settings`.

    Raises:
        RunFailed: from each query: the run came to no answer; `result` is what it came to.
        PodiumError: from each query: as `Conductor.run`.
    """

    def __init__(
        self,
        conductor: Conductor,
        *,
        streaming: bool = False,
        partial: Partial = "return",
        callback_manager: CallbackManager | None = None,
    ) -> None:
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
        answering = _Answering(self, query_bundle)
        pieces = iterate(answering.pieces)
        next(pieces)
        return StreamingResponse(pieces, answering.nodes, answering.metadata)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        if not self.streaming:
            return await self._whole(query_bundle)
        answering = _Answering(self, query_bundle)
        pieces = answering.pieces()
        await anext(pieces)
        return AsyncStreamingResponse(pieces, answering.nodes, answering.metadata)

    async def _whole(self, query: QueryBundle) -> Response:
        payload: dict[Any, Any] = {EventPayload.QUERY_STR: scrub(query.query_str)}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as told:
            steps = Steps(self.callback_manager)
            middleware = whole_answers(steps.middleware)
            run = self.conductor.run(query.query_str, middleware=middleware, on_event=steps.tell)
            result = answered(await run, partial=self.partial)
            response = Response(result.answer, merge(result, steps.found), metadata_of(result))
            shown = replace(response, response=scrub(result.answer))
            told.on_end(payload={EventPayload.RESPONSE: shown})
        return response

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
        """Update prompts; others remain in place.

        Raises:
            ValueError: a name says no worker that has prompts.
            ConfigError: a `task_prompt` has no `{task}`.
        """
        modules = self._get_prompt_modules()
        for key, prompt in prompts_dict.items():
            name, _, rest = key.partition(":")  # LlamaIndex's own takes no names of three parts apart
            if name not in modules:
                raise ValueError(f"no worker {name!r} has prompts: those that do are {', '.join(modules)}")
            modules[name].update_prompts({rest: prompt})


class _Answering:
    """One streamed answer: its pieces, and what becomes known of it meanwhile."""

    def __init__(self, engine: ConductorQueryEngine, query: QueryBundle) -> None:
        self._conductor = engine.conductor
        self._callbacks = engine.callback_manager
        self._partial = engine.partial
        self._query = query.query_str
        self._steps: Steps | None = None
        self._plan: Plan | None = None
        self._known: dict[int, Outcome] = {}
        self.nodes: list[NodeWithScore] = []
        self.metadata: dict[str, Any] = {}

    async def pieces(self) -> AsyncGenerator[str, None]:
        """Yield the answer; first an empty piece, once the steps before it are over.

        Leaving the iteration cancels the run.

        Raises:
            RunFailed: there is no answer, or another than what was yielded of it.
        """
        told = Told(self._callbacks, CBEventType.QUERY, {EventPayload.QUERY_STR: scrub(self._query)})
        with told.inside():
            self._steps = steps = Steps(self._callbacks)
            events = self._conductor.stream(self._query, middleware=steps.middleware)
            event = await anext(events)  # begins the run, whose steps are to be under the query's event
        sent, own, begun = StreamedAnswer(), event.run_id, False
        try:
            async with aclosing(events):
                while not isinstance(event, RunEnded) or event.run_id != own:
                    steps.tell(event)
                    piece = self._take(event, sent) if event.run_id == own else None
                    if piece is not None and not begun:
                        begun = True
                        yield ""
                    if piece:
                        yield piece
                    event = await anext(events)
                result = answered(event.result, partial=self._partial)
                self.nodes[:] = merge(result, steps.found)
                self.metadata |= metadata_of(result)
                if not begun:
                    yield ""
                if rest := sent.rest(result):
                    yield rest
        finally:
            told.end({EventPayload.RESPONSE: scrub(sent.text)})

    def _take(self, event: Event, sent: StreamedAnswer) -> str | None:
        """Take note of an event, and return the new piece of the answer that it is."""
        if isinstance(event, PlanReady):
            self._plan, self._known = event.plan, {}
            self.metadata |= {"run_id": event.run_id, "plan": plan_metadata(event.plan)}
        elif isinstance(event, StepEnded) and event.outcome.status == "ok":
            self._known[event.step] = event.outcome
        elif isinstance(event, AnswerDelta) and event.step is not None:
            if not sent.text:
                self._show(event)
            return sent.add(event)
        return None

    def _show(self, begun: AnswerDelta) -> None:
        """Show the nodes found so far, those of the step that writes the answer too."""
        number, step, attempt = begun.round, begun.step, begun.attempt
        if self._plan is None or self._steps is None or number is None or step is None or attempt is None:
            return
        writing = Outcome(round=number, step=step, worker="", status="ok", attempts=attempt)
        found = self._steps.found.get(begun.run_id, {})
        self.nodes[:] = behind(self._plan, {step: writing, **self._known}, step, found)


def _prompted(worker: Worker) -> PromptMixin | None:
    """Return what of a worker has prompts."""
    if isinstance(worker, QueryEngineWorker):
        return worker.engine
    if isinstance(worker, RetrieverWorker):
        return worker.retriever
    return worker if isinstance(worker, LLMWorker) else None
