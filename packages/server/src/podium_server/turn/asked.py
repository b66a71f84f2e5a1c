"""A request of any API, in the words of Podium."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podium.types import Message, Plan, Sampling, Tools
from podium_server.settings import Effort

_NO_TOOLS = Tools(())
_PLAIN = Sampling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request of any API."""

    model: str
    """The name of the model in the request."""
    messages: Sequence[Message]
    """The whole conversation."""
    tools: Tools = _NO_TOOLS
    """Tools for the worker that writes the answer."""
    sampling: Sampling = _PLAIN
    """Sampling of that worker, without the effort."""
    effort: Effort | None = None
    stream: bool = False
    """Whether the client reads the answer while it is written."""
    idempotency_key: str | None = None
    """Names the run, within the API key; `None` for a new run."""
    is_parallel: bool = True
    """Whether the answer may have several tool calls."""
    fingerprint: str = ""
    """Hash of the body of the request, which a repetition with the same idempotency key must have."""
    run_id: str | None = None
    """The id of the run; `None` for a new id, or the id for the idempotency key."""
    is_recorded: bool = True
    """Whether the run may be recorded."""
    plan: Plan | None = None
    """The plan of the request; `None` if the planner writes one."""
    context: Mapping[str, str] = field(default_factory=dict)
    """Named texts that subtasks may refer to."""
    client: Mapping[str, Any] | None = None
    """What the record of the run keeps of the request; see `RunOptions`."""
    user: str = ""
    """The id of the end user, as the client gave it."""
    labels: Collection[str] = ()
    """Labels of the query, in addition to those of the key."""
    only_plans: bool = False
    """Whether the run waits for the approval of its plan."""
    may_exist: bool = False
    """Whether an earlier process may have begun the run with the id `run_id`."""
