"""A conductor as a retriever: the nodes behind an answer, for chat engines, evaluators and synthesizers."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llama_index_podium.conducted import ConductedCall, bound_conductor
from llama_index_podium.planner import check_options, conductor_of
from llama_index_podium.sources import RUN, marked
from llama_index_podium.workers import as_worker
from podium.aio import run_sync
from podium.conductor import Conductor
from podium.hosts import ConductorFace, Partial
from podium.hosts.results import check_partial, lack_of, run_failed
from podium.planners import Planner
from podium.policy import Policy
from podium.workers import Gather

_TOLD: Final = ("run_id", "status", "problem", "planner")


@ConductorFace.register
class ConductorRetriever(BaseRetriever):
    """Plans a query, and returns the nodes found by the steps that the answer depends on.

    Nodes of the same id and content become one node. A node's metadata has the steps that found it under
    `podium_steps`, and the run's id, status, problem and planner under `podium_run`. Models and embeddings
    are not shown these keys. Nodes are in the order of the plan, not of scores, because scores of two indexes
    may not be comparable.

    Args:
        conductor: the conductor that plans and runs each query.
        answer: whether the answer is the first node, with the run's metadata and no score. Workers that do
            not search find no nodes; their output is only in the answer.
        partial: whether the nodes of an incomplete answer are returned, or `RunFailed` is raised. Returned
            nodes end with a node of the sentence `(Not complete: …)`; with `answer`, the first node has it.
            `RunFailed` is also raised if an incomplete answer has no nodes.
        labels: labels of each query; see `Conductor.bind`.
        policy: applies in addition to the conductor's policy.
        callback_manager: gets the searches and steps; `None` uses the callback manager of `Settings`.

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
        answer: bool = False,
        partial: Partial = "return",
        labels: Collection[str] = (),
        policy: Policy | None = None,
        callback_manager: CallbackManager | None = None,
        **unknown: Any,
    ) -> None:
        check_options(
            "ConductorRetriever", unknown, takes=("answer", "partial", "labels", "policy", "callback_manager")
        )
        super().__init__(callback_manager)
        self.conductor = bound_conductor(conductor, "ConductorRetriever", labels, policy)
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
        """Return a retriever with a new conductor.

        If the pool has no `Gather` worker, one is added. So a plan over several searches needs no model to
        write an answer.

        Args:
            workers: retrievers, query engines, LLMs, tools, or workers of Podium.
            planner: an LLM, or a planner of Podium; `None` uses `Settings.llm`.
            answer: as for the retriever.
            partial: as for the retriever.
            callback_manager: as for the retriever.
            options: options of `podium.Conductor`: `limits`, `policy`, `journal`, and so on;
                `fallback_planner` may be an LLM.

        Raises:
            TypeError: an option is not an option of `Conductor`.
            ConfigError: see `Conductor`.
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
        """Return the nodes unchanged, like `_handle_recursive_retrieval`."""
        return self._handle_recursive_retrieval(query_bundle, nodes)
