"""`[planner]` of type `router` in `podium.toml`. Imports are few, because any command may read it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from podium.config import AddedPlanner
from podium.errors import ConfigError
from podium.planners import Planner
from podium.workers import Worker


class RouterSection(AddedPlanner):
    """`[planner]` of type `router`: a router, which `podium evals tune` made, chooses the workers."""

    type: Literal["router"]
    """Kind of the planner."""
    path: str
    """File of the router. Relative paths start at the folder of `podium.toml`."""
    strategy: Literal["best", "value", "vote"] | None = None
    """How a question is planned. Default: `value` if the router has a tier, else `best`."""
    voters: Annotated[int, Field(ge=2)] | None = None
    """Number of workers in a vote. Default: 3. Only for the strategy `vote`."""
    worth: Annotated[float, Field(gt=0)] | None = None
    """The worth of a right answer, in USD. Default: the worth in the router's tier. Only for the strategy
    `value`."""

    def build(self, folder: Path, workers: Sequence[str]) -> Planner:
        """Build the planner.

        Raises:
            ConfigError: the file is not a router, `podium.toml` lacks one of the router's workers, or a key
                has no effect with the strategy.
        """
        from podium_evals.errors import RouterInvalid  # noqa: PLC0415 - scikit-learn is slow to import
        from podium_evals.router import Router, RouterPlanner  # noqa: PLC0415 - as above

        strategy = self.strategy or ("best" if self.worth is None else "value")
        for key, needed in (("voters", "vote"), ("worth", "value")):
            if getattr(self, key) is not None and strategy != needed:
                raise ConfigError(f"{key!r} in [planner] has no effect with the strategy {strategy!r}")
        path = folder / Path(self.path).expanduser()
        try:
            router = Router.load(path)
        except RouterInvalid as error:
            raise ConfigError(f"'path' in [planner]: {error}") from error
        if missing := [name for name in router.facts.workers if name not in workers]:
            known = ", ".join(router.facts.workers)
            raise ConfigError(
                f"'path' in [planner]: {path} was trained for {known}, but there is no "
                f"[workers.{missing[0]}]: train the router for the workers of this config "
                "(`podium evals tune`)"
            )
        try:
            return RouterPlanner(router, strategy=self.strategy, worth=self.worth, voters=self.voters or 3)
        except ConfigError as error:
            raise ConfigError(f"'strategy' in [planner]: {error}") from error

    def workers(self, folder: Path) -> Sequence[Worker]:  # noqa: ARG002 - no file is read
        """Return the worker that counts votes, for the strategy `vote`."""
        if self.strategy != "vote":
            return ()
        from podium_evals.grading.answers import final_answer  # noqa: PLC0415 - used by votes only
        from podium_evals.recorded import Vote  # noqa: PLC0415 - as above

        return (Vote(read=final_answer),)
