"""The interface for a host that starts the steps of a plan itself, such as another framework's graph."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from podium.types.outcome import Action, Outcome
from podium.types.plan import Plan
from podium.usage import Usage

NO_OUTCOMES: Mapping[int, Outcome] = MappingProxyType({})


class Pause(Exception):
    """Raised by a step starter that starts no step now; the run ends as `waiting` and can be resumed."""


class HostExit(BaseException):
    """Base class of exceptions that a host's middleware raises in a worker's call to leave the run.

    A step may start before its plan is complete and raise such an exception. The exception is then raised
    when the host runs that step.

    Args:
        args: the arguments of the exception.
        usage: the tokens that the call has used; `None` if they are not known: Podium then estimates them.
        continues: whether the host continues the call when it runs the step again. Otherwise it is not known
            whether an action was carried out.
    """

    actions: tuple[Action, ...] = ()
    """The actions that the run had begun when it was left."""

    def __init__(self, *args: object, usage: Usage | None = None, continues: bool = True) -> None:
        super().__init__(*args)
        self.usage = usage
        self.continues = continues


class ExternalScheduler(Protocol):
    """The steps of one round's plan, for a host that decides when each step starts.

    If a step can start before the plan is complete, the run itself starts it, except a step of an
    interruptible worker. When the host runs such a step, the step is already running or has ended. The run
    handles the workers, inputs and limits of all steps.
    """

    run_id: str
    round: int
    """The round's number, from 1."""
    plan: Plan
    workers: tuple[str, ...]
    """The names of the pool's workers, in the pool's order."""

    async def run(self, index: int, known: Mapping[int, Outcome] = NO_OUTCOMES) -> Outcome:
        """Run a step, or wait for a running step, and return its outcome.

        A step that has ended is not run again. A failed step has an outcome and raises no exception. A step
        that lacks an input is handled according to `on_failure`. An action that waits for a person has not
        ended: its outcome has the problem code `WAITING`, and the steps that need it are not run.

        Args:
            index: index of the step, from 0.
            known: outcomes of other steps that the host has stored; `run` passes them to `take`.

        Raises:
            ConfigError: the step does not exist, was started by the host before, or depends on steps that
                have not ended.
        """
        ...

    def take(self, index: int, outcome: Outcome) -> None:
        """Reuse the stored outcome of a step; its cost counts against the run's limits.

        A step that has ended in this run keeps its outcome.
        """

    def charge(self, index: int, outcome: Outcome) -> None:
        """Count the spending of a stored attempt of a step, before the step runs again.

        The spending counts against the run's limits, and is part of the cost of the step's new outcome.
        """


StepStarter = Callable[[ExternalScheduler], Awaitable[None]]
"""A function that starts each step of a plan after the steps on its access list have ended, and waits for all
steps.

The run raises the exceptions of this function. Steps that the function does not start are cancelled. The
function may raise `Pause` to postpone all steps; the run then ends after the running steps have ended.
"""
