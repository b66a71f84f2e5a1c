"""Chooses, among the labelled lists of a text, the three that are the plan.

Models write such lists in their reasoning too, some of them or all, before they commit
to a plan, and point at them again afterwards. Knows nothing of how lists are found or of
what their entries mean.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from podium.plan_text.fields import Field
from podium.plan_text.literal_reader import Node


class LabelledList(NamedTuple):
    """A list, the field it was labelled with, and where label and list stand in the whole text."""

    field: Field
    node: Node
    start: int
    end: int


def choose_lists(lists: Sequence[LabelledList]) -> Mapping[Field, Node] | None:
    """Return the last whole set of three lists; `None` when a field has no list at all.

    A set is three lists in a row, one of each field. Where sets share a list, the one of
    equal lengths is meant, then the one whose lists stand closest together. Where that
    leaves no fitting set at the end, the last list of each field counts.
    """
    sets = [i for i in range(len(lists) - 2) if len({one.field for one in lists[i : i + 3]}) == 3]
    sets.sort(key=lambda i: _looseness(lists[i : i + 3]))
    taken: set[int] = set()
    starts: list[int] = []
    for i in sets:
        if taken.isdisjoint((i, i + 1, i + 2)):
            taken.update((i, i + 1, i + 2))
            starts.append(i)
    starts.sort()
    chosen = {one.field: one.node for i in starts[-1:] for one in lists[i : i + 3]}
    if _fit(chosen):
        return chosen
    latest = {one.field: one.node for one in lists}
    return latest if _fit(latest) or (len(latest) == 3 and not chosen) else chosen or None


def _looseness(found: Sequence[LabelledList]) -> tuple[bool, int]:
    """Return how little three lists look like one set; of two sets, the smaller is meant."""
    gap = found[1].start - found[0].end + found[2].start - found[1].end
    return not _fit({one.field: one.node for one in found}), gap


def _fit(found: Mapping[Field, Node]) -> bool:
    """Say whether these are three lists of equal length."""
    lengths = {len(node.value) if isinstance(node.value, list) else -1 for node in found.values()}
    return len(found) == 3 and len(lengths) == 1 and -1 not in lengths
