"""Collect the nodes that steps find, and merge them for an answer.

Retrievers and query engines run deep inside a step. So they add their nodes to a context variable, which
belongs to the call of the step.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from llama_index.core.schema import BaseNode, ImageNode, MetadataMode, Node, NodeWithScore

from podium.hosts.results import answer_sources
from podium.types import Outcome, Plan, Result, steps_behind

STEPS: Final = "podium_steps"
"""The key in a source node's metadata for the steps that found it."""
RUN: Final = "podium_run"
"""The key in a retrieved node's metadata for the run that found it."""
_MARKS: Final = frozenset((STEPS, RUN))
_HIDDEN: Final = ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")


class Place(NamedTuple):
    """One call for one step of a run."""

    round: int
    step: int
    attempt: int


Found = Mapping[str, Mapping[Place, Sequence[NodeWithScore]]]
"""The nodes found by the calls of runs, by the run's id."""

FINDING: ContextVar[list[NodeWithScore] | None] = ContextVar("podium_finding", default=None)
"""The nodes found so far by the current call; `None` outside of a step."""


def note(nodes: object) -> None:
    """Add nodes to the nodes of the current step; other objects are ignored."""
    found = FINDING.get()
    if found is not None and isinstance(nodes, Iterable):
        found += [_unmarked(node) for node in nodes if isinstance(node, NodeWithScore)]


def merge(result: Result, found: Found) -> list[NodeWithScore]:
    """Return the nodes behind a result's answer, as `behind` does."""
    return _merged(answer_sources(result), found.get(result.run_id, {}))


def behind(
    plan: Plan, ended: Mapping[int, Outcome], step: int, found: Mapping[Place, Sequence[NodeWithScore]]
) -> list[NodeWithScore]:
    """Return the nodes found by a step, and by all steps whose outputs it used, each node once.

    The nodes are in the order of the plan; the nodes of one step are in the order in which they were found.
    Nodes of the same id and content become one node with the highest score. Two indexes may use the same id
    for different content: then both nodes are returned. Each node is a copy. Its metadata has the key
    `podium_steps` with the numbers of the steps that found the node. Models and embeddings are not shown this
    key.
    """
    steps = steps_behind(plan, ended, step)
    inside = [outcome for outcome in ended.values() if outcome.path and outcome.plan_step in steps]
    return _merged([*(ended[index] for index in steps), *inside], found)


def text_of(nodes: Iterable[NodeWithScore]) -> str:
    """Return the nodes' texts as LlamaIndex shows them to a model, with their metadata."""
    return "\n\n".join(node.node.get_content(MetadataMode.LLM) for node in nodes)


def gaps_of(nodes: Iterable[NodeWithScore]) -> list[str]:
    """Return the names of the nodes' parts that are not text."""
    return [f"{kind} (node {found.node_id!r})" for found in nodes for kind in _kinds_of(found.node)]


def _kinds_of(node: BaseNode) -> list[str]:
    if isinstance(node, ImageNode):
        return ["an image"] if node.image or node.image_path or node.image_url else []
    if isinstance(node, Node):
        parts = {
            "an image": node.image_resource,
            "sound": node.audio_resource,
            "a video": node.video_resource,
        }
        return [kind for kind, part in parts.items() if part is not None]
    return []


def _merged(
    outcomes: Iterable[Outcome], found: Mapping[Place, Sequence[NodeWithScore]]
) -> list[NodeWithScore]:
    merged: dict[tuple[str, str], NodeWithScore] = {}
    steps: dict[tuple[str, str], list[int]] = {}
    for outcome in outcomes:
        for node in found.get(Place(outcome.round, outcome.step, outcome.attempts), ()):
            key = (node.node_id, node.node.hash)
            merged[key] = _better(merged.get(key), node)
            finders = steps.setdefault(key, [])
            if outcome.plan_step not in finders:
                finders.append(outcome.plan_step)
    return [marked(node, {STEPS: steps[key]}) for key, node in merged.items()]


def _better(before: NodeWithScore | None, node: NodeWithScore) -> NodeWithScore:
    if before is None or before.score is None:
        return node
    return node if node.score is not None and node.score > before.score else before


def marked(found: NodeWithScore, facts: Mapping[str, Any]) -> NodeWithScore:
    """Return a copy of a node with more metadata, which models and embeddings are not shown."""
    node = found.node
    hidden = {name: [*getattr(node, name), *facts] for name in _HIDDEN}
    copy = node.model_copy(update={"metadata": {**node.metadata, **facts}, **hidden})
    return NodeWithScore(node=copy, score=found.score)


def _unmarked(found: NodeWithScore) -> NodeWithScore:
    """Return a node without the metadata that a nested conductor has added."""
    node = found.node
    if _MARKS.isdisjoint(node.metadata):
        return found
    kept = {name: [key for key in getattr(node, name) if key not in _MARKS] for name in _HIDDEN}
    metadata = {key: value for key, value in node.metadata.items() if key not in _MARKS}
    return NodeWithScore(node=node.model_copy(update={"metadata": metadata, **kept}), score=found.score)
