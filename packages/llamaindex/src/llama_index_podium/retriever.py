"""A conductor as a retriever: the nodes behind an answer, for chat engines, evaluators and synthesizers."""

from collections.abc import Sequence
from typing import Any, Final

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llama_index_podium.conducted import ConductedCall
from llama_index_podium.planner import check_conductor, check_options, conductor_of
from llama_index_podium.sources import RUN, marked
from llama_index_podium.workers import as_worker
from podium.aio import run_sync
from podium.conductor import Conductor
from podium.hosts import ConductorFace, Partial, check_partial, run_failed
from podium.planners import Planner
from podium.workers import Gather

_TOLD: Final = ("run_id", "status", "problem", "planner")


@ConductorFace.register
class ConductorRetriever(BaseRetriever):
    """Plans a query, and returns the nodes that the steps behind the answer found.

    Nodes of the same id and content are one node. A node's metadata has the steps that found it
    under `podium_steps`, and under `podium_run` the run's id, status, problem and planner. Models
    and embeddings are shown neither. Nodes stand in the order of the plan, not in that of scores,
    which two indexes need not share.

    Args:
        conductor: the conductor that answers.
        answer: whether the answer itself is the first node, with the run's metadata and no score.
            Workers that are no searches find no nodes, so only the answer has what they wrote.
        partial: whether the nodes of an answer that lacks something are returned, or `RunFailed` is
            raised. It is raised, too, where there is no node that could tell it.
        callback_manager: is told of searches and steps; `None` takes that of `Settings`.

    Raises:
        TypeError: there is an option that it does not take.
        ConfigError: the first argument is no conductor.
        RunFailed: from each query: the run has no answer; `result` is the run's.
        PodiumError: from each query: as `Conductor.run`.
    """

    def __init__(
        self,
        conductor: Conductor,
        *,
        answer: bool = False,
        partial: Partial = "return",
        callback_manager: CallbackManager | None = None,
        **unknown: Any,
    ) -> None:
        check_conductor(conductor, "ConductorRetriever")
        check_options("ConductorRetriever", unknown, takes=("answer", "partial", "callback_manager"))
        super().__init__(callback_manager)
        self.conductor = conductor
        self.answer = answer
        self.partial: Partial = check_partial(partial)

    @classmethod
    def from_defaults(
        cls,
        workers: Sequence[Any],
        planner: LLM | Planner | None = None,
        *,
        answer: bool = False,
        partial: Partial = "return",
        callback_manager: CallbackManager | None = None,
        **options: Any,
    ) -> "ConductorRetriever":
        """Return a retriever over a conductor made for it.

        A `Gather` worker joins the pool unless it has one: a plan over several searches then needs no
        model that writes an answer.

        Args:
            workers: retrievers, query engines, LLMs, tools, or workers of Podium's.
            planner: an LLM, or a planner of Podium's; `None` takes `Settings.llm`.
            answer: as for the retriever.
            partial: as for the retriever.
            callback_manager: as for the retriever.
            options: options of `podium.Conductor`: `limits`, `policy`, `journal`, and so on;
                `fallback_planner` may be an LLM.

        Raises:
            TypeError: an option is not one of `Conductor`'s.
            ConfigError: as `Conductor`.
        """
        pool = [as_worker(worker) for worker in workers]
        if not any(isinstance(worker, Gather) for worker in pool):
            pool.append(Gather())
        conductor = conductor_of(
            planner,
            pool,
            face="ConductorRetriever.from_defaults",
            takes=("answer", "partial", "callback_manager"),
            **options,
        )
        return cls(conductor, answer=answer, partial=partial, callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_sync(lambda: self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        call = ConductedCall(
            self.conductor, self.callback_manager, query_bundle.query_str, partial=self.partial
        )
        result = (await call.run()).result
        told = {RUN: {key: call.metadata[key] for key in _TOLD}}
        nodes = [marked(node, told) for node in call.nodes]
        if self.answer:
            answer = TextNode(id_=result.run_id, text=result.answer)
            nodes.insert(0, marked(NodeWithScore(node=answer), {RUN: call.metadata}))
        if not nodes and result.problem is not None:
            raise run_failed(f"no node was found ({result.problem.message})", result)
        return nodes

    def _handle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        """Return the nodes as they are: LlamaIndex would drop one of two that share an id."""
        del query_bundle
        return nodes

    async def _ahandle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        """Do as `_handle_recursive_retrieval`."""
        return self._handle_recursive_retrieval(query_bundle, nodes)
