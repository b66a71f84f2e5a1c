"""The seam for a host that starts the steps of a plan itself, such as another framework's graph."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from podium.types.outcome import Outcome
from podium.types.plan import Plan

NO_OUTCOMES: Mapping[int, Outcome] = MappingProxyType({})


class Pause(Exception):
    """Raised by a step starter that starts no step now: the run ends as `waiting` and can be resumed."""


class HostExit(BaseException):
    """Base of what a host's middleware raises to leave the run from within a worker's call.

    Raised in a step that started before its plan was whole, it waits until the host runs that step.
    """


class ExternalScheduler(Protocol):
    """The steps of one round's plan, for a host that decides when each step starts.

    Steps that can start while the plan is still being written are started by the run itself, except
    those of workers that may be interrupted; so the host finds them running or ended.
    Workers, inputs and budgets of the steps stay the run's business.
    """

    run_id: str
    round: int
    """The round's number, from 1."""
    plan: Plan
    workers: tuple[str, ...]
    """The names of the pool's workers, in its order."""

    async def run(self, index: int, known: Mapping[int, Outcome] = NO_OUTCOMES) -> Outcome:
        """Run a step, or wait for it if it runs, and return its outcome; a step that has ended is not run.

        A failed step does not raise. A step that lacks an input is skipped, or handled as
        `on_failure` says.

        Args:
            index: the step, from 0.
            known: outcomes of other steps that the host has stored, as `take` takes them.

        Raises:
            ConfigError: the step does not exist, was started by the host before, or depends on steps that
                have not ended.
        """
        ...

    def take(self, index: int, outcome: Outcome) -> None:
        """Take the stored outcome of a step; its cost counts against the run's limits.

        A step that has ended in this run keeps its outcome.
        """

    def charge(self, index: int, outcome: Outcome) -> None:
        """Charge what a stored attempt of a step spent, before the step runs again.

        It counts against the run's limits, and is on the bill of the step's new outcome.
        """


StepStarter = Callable[[ExternalScheduler], Awaitable[None]]
"""Starts the steps of a plan, each once the steps on its access list have ended, and waits for them.

An exception that it raises is raised by the run. Steps that it does not start are cancelled. It may
raise `Pause` to put all steps off; the run then ends once the steps that run have ended.
"""
