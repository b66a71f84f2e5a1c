"""The arms of the command line, by name."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from podium.errors import ConfigError
from podium_evals.arms import (
    AgainIfEmpty,
    Alone,
    AnyCorrect,
    Arm,
    BestSingle,
    EqualBudget,
    KindRule,
    MajorityVote,
    MixtureOfAgents,
    OwnMajority,
    RandomPlan,
    RandomWorker,
    RoutingOracle,
)
from podium_evals.calibration import CalibratedArm, CalibratedRouterArm
from podium_evals.plans import RecordedPlansArm, read_plans
from podium_evals.router import RouterArm

BASE = BestSingle().name
"""The name of the arm to compare the others with."""

ARMS: Mapping[str, Callable[[Sequence[str]], Sequence[Arm]]] = {
    "workers": lambda workers: [Alone(worker) for worker in workers],
    "random": lambda _: [RandomWorker()],
    "random-plan": lambda _: [RandomPlan()],
    "best": lambda _: [BestSingle()],
    "again": lambda _: [AgainIfEmpty(BestSingle(), "same")],
    "next-best": lambda _: [AgainIfEmpty(BestSingle())],
    "kind-rule": lambda _: [KindRule()],
    "kind-next-best": lambda _: [AgainIfEmpty(KindRule())],
    "router": lambda _: [RouterArm()],
    "calibrated": lambda _: [CalibratedArm()],
    "calibrated-found": lambda _: [CalibratedArm(is_told=False)],
    "calibrated-router": lambda _: [CalibratedRouterArm()],
    "vote-3": lambda _: [MajorityVote(3)],
    "vote-5": lambda _: [MajorityVote(5)],
    "own-3": lambda _: [OwnMajority(3)],
    "equal-budget": lambda _: [EqualBudget(KindRule())],
    "mixture": lambda _: [MixtureOfAgents()],
    "oracle": lambda _: [RoutingOracle()],
    "any-correct": lambda _: [AnyCorrect()],
}
PLANS = "planner:"
"""The beginning of the name of an arm that is a file of plans."""
NEED_PROBES = ("calibrated", "calibrated-found", "calibrated-router")
"""The arms that need probes."""


def named_arms(names: Sequence[str], workers: Sequence[str]) -> list[Arm]:
    """Return the arms with these names, in the order of `ARMS`. The best single worker is always among them.

    Args:
        names: names of `ARMS`, and `planner:FILE` for a file of plans; these come last.
        workers: the workers of the pool.

    Raises:
        ConfigError: there is no such arm.
        RecordingInvalid: a file of plans cannot be read.
    """
    known = [name for name in names if not name.startswith(PLANS)]
    if unknown := [name for name in known if name not in ARMS]:
        raise ConfigError(
            f"there is no arm {unknown[0]!r}: the arms are {', '.join(ARMS)}, and {PLANS}FILE for "
            "recorded plans"
        )
    wanted = {*known, "best"}
    found = [arm for name, make in ARMS.items() if name in wanted for arm in make(workers)]
    return found + [_of_plans(name.removeprefix(PLANS)) for name in names if name.startswith(PLANS)]


def _of_plans(path: str) -> Arm:
    if not path:
        raise ConfigError(f"name a file after {PLANS}")
    return RecordedPlansArm(f"plans of {Path(path).stem}", read_plans(path))
