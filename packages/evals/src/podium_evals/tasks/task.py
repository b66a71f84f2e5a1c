"""Defines a task: the source of its rows, and the function that turns a row into a question."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from podium_evals.recorded import Origin, Provenance

Row = Mapping[str, Any]
"""A row of the source, with the source's column names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSplit:
    """A split of a dataset that the Hugging Face hub's dataset viewer serves as JSON."""

    dataset: str
    config: str = "default"
    split: str = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFiles:
    """Files of a dataset on the Hugging Face hub, for datasets without the dataset viewer."""

    dataset: str
    revision: str
    """The commit."""
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A benchmark, as questions with right answers or tests."""

    name: str
    """The name of the task on the command line."""
    source: HubSplit | HubFiles | Origin
    provenance: Provenance
    grader: str
    """The name of the grader of its answers."""
    question: Callable[[Row], Mapping[str, Any] | None]
    """Turns a row of the source into a row of a questions file, without `grader`. `None` leaves the row
    out."""
    gated: str = ""
    """How to get the rows, if the owners ask for consent first; empty if they do not."""
