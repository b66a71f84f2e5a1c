"""Workers and planners that a user wrote wrongly: each mistake is told in a sentence with its remedy."""

from collections.abc import Callable
from typing import Any

import pytest

from podium import ChatWorker, Conductor, RulePlanner, ScriptedWorker
from podium.errors import ConfigError
from podium.planners import FixedPlanner, Planner, PlanRequest
from podium.types import Completion, Plan, Step
from podium.workers import FREE, Card, Request, Worker

STEP = FixedPlanner(Plan((Step(0, "Do it."),)))
ONLY = ScriptedWorker("only", "Done.")


class NoCard(Worker):
    """Lacks a card."""

    def call(self, request: Request) -> Any:
        """Do nothing."""


class NoName(Planner):
    """Lacks a name."""

    def plan(self, request: PlanRequest) -> Any:
        """Do nothing."""


class Returning(Worker):
    """Returns its answer, where it should yield it."""

    card = Card(name="returning", price=FREE)

    async def call(self, request: Request) -> Any:  # type: ignore[override]
        """Answer."""
        return Completion("Done.")


class ReturningPlanner(Planner):
    """Returns its plan, where it should yield it."""

    name = "returning"

    async def plan(self, request: PlanRequest) -> Any:  # type: ignore[override]
        """Plan."""
        return "{}"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Conductor(RulePlanner(), [NoCard()]), r"NoCard has no card: set `card = Card"),
        (lambda: Conductor(RulePlanner(), ONLY), r"needs a list of workers: write \[ScriptedWorker"),
        (lambda: Conductor(NoName(), [ONLY]), r"NoName has no name: set `name = "),
        (lambda: Conductor(ONLY, [ONLY]), r"is not a planner: wrap it in a ChatPlanner"),
        (lambda: Conductor(RulePlanner(), [print]), r"is not a worker: wrap it in a FunctionWorker"),
        (lambda: Conductor(RulePlanner(), [ONLY], limits={"calls": 3}), r"limits is .*: write Limits"),
        (lambda: ChatWorker("m", endpoint="http://127.0.0.1:1/v1"), r"write endpoint=Endpoint\("),
    ],
)
def test_an_object_of_the_wrong_kind_is_refused_at_once(make: Callable[[], object], told: str) -> None:
    """Before anything runs."""
    with pytest.raises(ConfigError, match=told):
        make()


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: Conductor(STEP, [Returning()]), "call returned a coroutine: make it an async generator"),
        (lambda: Conductor(ReturningPlanner(), [ONLY]), "plan returned a coroutine: make it an async"),
    ],
)
def test_a_call_without_yield_is_told_so(made: Callable[[], Conductor], told: str) -> None:
    """The commonest mistake names its remedy, and leaves no coroutine that nobody awaited."""
    with pytest.raises(TypeError, match=told):
        made().run_sync("Why?")


def test_an_unknown_option_is_refused() -> None:
    """A misspelt option is not ignored."""
    options: dict[str, Any] = {"middelware": None}
    with pytest.raises(TypeError, match="unexpected keyword argument 'middelware'"):
        Conductor(STEP, [ONLY]).run_sync("Why?", **options)
