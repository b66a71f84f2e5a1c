"""The tables `[server]` and `[models.NAME]` of `podium.toml`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, RootModel, model_validator
from pydantic_core import PydanticCustomError

from podium.budget import Limits
from podium.config import Section
from podium.errors import ConfigError

Count = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]
Show = Literal["none", "steps", "all"]
"""The progress that a client sees: nothing, the plan and the ends of steps, or also the outputs of steps."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"]
"""The reasoning efforts that clients send, from the lowest to the highest."""
Preset = Literal["mini", "ultra"]
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$"


class ServerSection(Section):
    """`[server]`: address and limits of `podium serve`."""

    host: str = "127.0.0.1"
    """Address on which the server listens."""
    port: int = Field(default=8000, ge=0, lt=2**16)
    """Port on which the server listens; 0 for any free port."""
    body_bytes: Count = 32 * 2**20
    """Maximum size of a request, in bytes."""
    header_bytes: Count = 32 * 2**10
    """Maximum size of the headers of a request, in bytes."""
    requests: Count = 512
    """Maximum number of requests at the same time; further requests get the status 503."""
    background_runs: Count = 64
    """Maximum number of runs in the background at the same time; further runs wait in the queue."""
    queued_runs: Count = 10_000
    """Maximum number of runs in the queue, which all replicas share; further runs get the status 503."""
    read_seconds: Seconds = 30.0
    """Time in which a client must send a request, in seconds."""
    write_seconds: Seconds = 60.0
    """Time in which a client must read a piece of the response, in seconds."""
    keep_alive_seconds: Seconds = 10.0
    """Time without an event after which a stream sends a comment, in seconds."""
    keep_days: Seconds | None = None
    """Days after whose end runs are deleted, with all that belongs to them; default: they are kept."""
    drain_seconds: Seconds = 30.0
    """Time in which running requests and runs may end when the server stops, in seconds."""


class EffortSection(Section):
    """`[models.NAME.efforts.EFFORT]`: what a reasoning effort changes."""

    rounds: Count | None = None
    """Maximum rounds of a run; default: the limit of the model."""
    steps: Count | None = None
    """Maximum steps of a plan; default: the limit of the model."""
    worker: str | None = None
    """Reasoning effort for the worker that writes the answer; default: none is sent."""


def check_limits(limits: Mapping[str, float]) -> Mapping[str, float]:
    """Return limits by name; raise `PydanticCustomError` if `Limits` would refuse them."""
    known = [limit.name for limit in fields(Limits)]
    if unknown := sorted(limits.keys() - set(known)):
        told = f"unknown limit {unknown[0]!r}: write one of {', '.join(known)}"
        raise PydanticCustomError("refused", "{told}", {"told": told})
    try:
        Limits(**limits)  # type: ignore[arg-type]  # it checks the types itself
    except ConfigError as error:
        raise PydanticCustomError("refused", "{told}", {"told": str(error)}) from error
    return limits


class ModelSection(Section):
    """`[models.NAME]`: a model that clients can name."""

    preset: Preset | None = None
    """`mini`: cheap workers and short plans. `ultra`: all workers; each answer is checked, and improved in
    further rounds. Default: the conductor of the file."""
    worker: str | None = None
    """Name of the worker that answers as itself, without a plan; instead of a conductor."""
    workers: list[str] | None = Field(default=None, min_length=1)
    """Names of the workers of this model; default: all workers, or the cheap workers for `mini`."""
    codex_instructions: str | None = Field(default=None, min_length=1)
    """File with the instructions that Codex gives to the model, in place of its own. Only models with such a
    file are in the list of models for Codex, which has no entries without instructions."""
    aliases: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,99}$")]] = Field(
        default_factory=list
    )
    """Further names under which clients call the model; `*` stands for any characters. The first model in the
    file with a fitting alias is called. Aliases are not listed."""
    description: str = ""
    """Shown in the list of models."""
    version: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,40}$")
    """Version in the id of the model; default: a hash of the configuration."""
    show: Show | None = None
    """Progress that clients see as reasoning; default `steps`, or `none` for a worker."""
    direct: bool | str | None = None
    """Whether a short, simple question goes to one worker without a call of the planner: to the worker that
    fits it best. If several fit equally, it is planned, or goes to the worker that is named here. Default for
    `mini`: the worker with the highest price; otherwise the value of `[conductor]`."""
    accept: str | None = None
    """Name of the worker that judges each answer; default: the value of `[conductor]`."""
    limits: Annotated[dict[str, int | float], AfterValidator(check_limits)] = Field(default_factory=dict)
    """Limits that replace those of `[limits]`."""
    efforts: dict[Effort, EffortSection] = Field(default_factory=dict)
    """What each reasoning effort changes. An effort without a table uses the nearest lower one that has a
    table, or else the nearest higher one."""

    @model_validator(mode="after")
    def _check_worker(self) -> Self:
        """Check that a worker as itself has no options of a conductor."""
        if self.worker is not None:
            for name in ("preset", "workers", "direct", "accept"):
                if getattr(self, name) is not None:
                    told = (
                        f"{name!r} has no effect with 'worker', which answers without a plan: leave one out"
                    )
                    raise PydanticCustomError("refused", "{told}", {"told": told})
        return self


ModelName = Annotated[str, Field(pattern=_NAME)]


class ModelsTable(RootModel[dict[ModelName, ModelSection]]):
    """`[models]`: the models of `podium serve`, by name."""

    root: dict[ModelName, ModelSection] = Field(default_factory=dict)
