"""The exceptions of Podium.

`PodiumError` is the base class. Its main subclasses are `PlanError` (a plan is not valid), `JournalError`
(a run cannot be read or recorded) and `WorkerError` (a call of a worker failed).

Every error has a stable `code`, which the journal records. The message says what is wrong
and how to fix it. The module that calls a library translates its errors, with `raise ... from`.
"""

import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from shlex import quote
from typing import Any, Literal

from podium.usage import Usage

PlanSyntaxCode = Literal[
    "no_plan",
    "missing_list",
    "truncated",
    "bad_value",
    "duplicate_key",
    "rows_in_reasoning",
    "two_plans",
    "too_deep",
    "too_long",
    "too_tangled",
]
PlanInvalidCode = Literal[
    "unequal_lists",
    "missing_field",
    "duplicate_field",
    "bad_shape",
    "too_many_steps",
    "bad_worker",
    "unknown_worker",
    "bad_subtask",
    "empty_subtask",
    "subtask_too_long",
    "bad_id",
    "bad_access",
    "bad_enough",
    "bad_reference",
    "forward_access",
    "no_previous",
    "nothing_to_keep",
    "unknown_schema",
    "unknown_key",
    "bad_returns",
    "bad_each",
    "bad_condition",
    "bad_block",
    "bad_value",
    "bad_args",
    "unknown_plan",
    "unknown_tool",
]


class PodiumError(Exception):
    """Base class of all Podium errors."""

    code: str = "podium"
    """Stable name of the error, the same in every release."""
    actions: tuple[Any, ...] = ()
    """The actions (`podium.types.Action`) that the run had begun when the error ended it."""

    def __str__(self) -> str:
        """Return the message; it ends with the actions, for people and models who see only a text."""
        told, done = super().__str__(), actions_told(self.actions)
        return told if done in told else f"{told}; {done}"  # an error of another Podium says it already


def actions_told(actions: Sequence[Any]) -> str:
    """Return the actions (`podium.types.Action`) of a run as a text; empty without actions."""
    return f"actions of the run: {'; '.join(map(str, actions))}" if actions else ""


class ConfigError(PodiumError):
    """A setting, card, pool or argument is invalid; nothing was started."""

    code = "config"


class QueryError(PodiumError):
    """The query is invalid; nothing was started."""

    code = "query"


class PlanError(PodiumError):
    """Plan text or a plan is invalid."""

    code = "plan"


class PlanSyntaxError(PlanError):
    """The text contains no readable plan."""

    def __init__(self, code: PlanSyntaxCode, message: str, *, position: int) -> None:
        super().__init__(message)
        self.code = code
        self.position = position
        """Offset in the text, in characters from 0."""


class PlanInvalid(PlanError):
    """The plan breaks a rule."""

    def __init__(
        self,
        code: PlanInvalidCode,
        message: str,
        *,
        step: int | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code: PlanInvalidCode = code
        self.step = step
        """Index of the invalid step, from 0; `None` when the error is in the plan as a whole."""
        self.position = position
        """Offset in the text, in characters from 0; `None` when the plan was not read from text."""


class PlanForbidden(PlanError):
    """The policy does not allow the plan."""

    code = "policy"

    def __init__(self, message: str, *, step: int | None = None) -> None:
        super().__init__(message)
        self.step = step
        """Index of the forbidden step, from 0; `None` when the plan as a whole is forbidden."""


PlannerErrorCode = Literal[
    "planner_unreachable", "planner_refused", "planner_unusable", "planner_limit", "planner_failed"
]
"""Why there is no plan.

- `planner_unreachable`: all calls of the planner failed (network, timeouts, 429, 5xx).
- `planner_refused`: the planner refused, or the policy does not let it see the question.
- `planner_unusable`: the planner's text and its repair are not valid plans.
- `planner_limit`: the call does not fit the limits of the run.
- `planner_failed`: the planner's code raised.
"""


class PlannerError(PodiumError):
    """No planner wrote a usable plan, so the run has no answer.

    A run with a journal is recorded as failed and can be resumed. Resuming calls the planner again.
    """

    code = "planner_failed"

    def __init__(
        self,
        message: str,
        *,
        code: PlannerErrorCode = "planner_failed",
        run_id: str = "",
        calls: Sequence[Any] = (),
        usage: Usage = Usage(),
        cost: float | None = 0.0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.run_id = run_id
        """The id of the run."""
        self.calls = tuple(calls)
        """The `Proposal` of each planner call, in order: the planner, its text, and the problem."""
        self.usage = usage
        """Tokens that the run used."""
        self.cost = cost
        """Cost of the run, in USD; `None` when unknown."""


class LimitExceeded(PodiumError):
    """The run would exceed a limit."""

    code = "limit"

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit
        """The field of `Limits` that was reached."""


class JournalError(PodiumError):
    """The journal cannot be read or written; no committed record is lost."""

    code = "journal"
    result: Any = None
    """The `Result` that could not be recorded; `None` when the run has none."""
    is_busy: bool = False
    """Whether another program has locked the database, or it has no free connection, or is starting."""


class RunUnknown(JournalError):
    """The journal has no run with this id."""

    code = "run_unknown"


class RunExists(JournalError):
    """The journal has a run with this id, for another query."""

    code = "run_exists"


class RunHeld(JournalError):
    """Another process executes the run."""

    code = "run_held"


class RunLost(JournalError):
    """Another process took over the run, or the run was deleted; later results are not recorded."""

    code = "run_lost"


class RunDead(JournalError):
    """The run was resumed too often without ending."""

    code = "run_dead"


class JournalBroken(JournalError):
    """A record was changed, or has a version that this Podium cannot read."""

    code = "journal_broken"


class JournalVersion(JournalBroken):
    """Another version of Podium wrote the journal, and this version cannot read it."""

    code = "journal_version"


class ListenerFailed(PodiumError):
    """An event callback raised; the run continued without it."""

    code = "listener"
    result: Any = None
    """The `Result` of the run; `None` when the run has none."""


class RunFailed(PodiumError):
    """The run has no answer, and the caller needs one.

    Adapters raise it where their framework expects an answer. `Conductor.run` returns the `Result` instead.
    """

    code = "run_failed"
    result: Any = None
    """The `Result` of the run."""


class RunWaiting(PodiumError):
    """The run waits for the approval of its plan or of an action, and the caller needs an answer.

    A call with the same run id finds the same run; a call without an id starts another run, which waits too.
    Adapters raise it where their framework expects an answer. `Conductor.run` returns the `Result` instead.
    """

    code = "waiting"
    result: Any = None
    """The `Result` of the run."""


class WorkerError(PodiumError):
    """A call of a worker failed."""

    code = "worker"
    acted: bool | None = None
    """Whether the worker has begun an action, as a server of Podium says; `None` if it does not say it."""

    def __init__(  # noqa: PLR0913 - the facts of one call
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        maybe_paid: bool = False,
        usage: Usage | None = None,
        cost: float | None = None,
        received: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; `None` when there is none."""
        self.retry_after = retry_after
        """Seconds to wait before a retry, as the worker asked; `None` when it did not ask."""
        self.maybe_paid = maybe_paid
        """Whether the request was sent, so it may be billed."""
        self.usage = usage
        """Tokens that the call used; `None` when unknown: Podium then estimates them."""
        self.cost = cost
        """Cost of `usage` in USD; `None` when unknown."""
        self.received = received
        """The text of a response that was received to its end, and reports no usage: the call used no more
        tokens for its answer. Empty if the server answered with an error of its own (5xx); `None` if the
        answer may be longer."""


class WorkerUnavailable(WorkerError):
    """The worker is unreachable, overloaded or down."""

    code = "worker_unavailable"
    is_down: bool = False
    """Whether no connection can be made. Then no call waits until a circuit breaker closes."""
    is_local: bool = False
    """Whether this machine has no free file descriptor for a connection. Then no circuit breaker opens."""


class WorkerRefused(WorkerError):
    """The worker refused the request because of its key, model, input or content."""

    code = "worker_refused"


class WorkerActs(WorkerRefused):
    """The server says that a call acts, and did nothing, because the step was not known as an action.

    The worker now acts (`Worker.acts`), and the run carries out the step as an action.
    """

    code = "worker_acts"


class AnswerRefused(WorkerRefused):
    """The model, or a content filter of its provider, refused to answer."""

    code = "answer_refused"


class WorkerTimeout(WorkerError):
    """The worker did not answer in time."""

    code = "worker_timeout"


class WorkerBroken(WorkerError):
    """The response is not a complete answer: it is malformed, cut off or empty."""

    code = "worker_broken"


class AnswerCut(WorkerBroken):
    """The answer was cut at the token limit, and the received part does not have the requested form."""

    code = "cut"


class AnswerTooLong(WorkerBroken):
    """The answer is longer than `Limits.output_chars`."""

    code = "answer_too_long"


class AnswerToolCalls(WorkerBroken):
    """The answer calls tools, and the request offered none."""

    code = "answer_tool_calls"


class AnswerEmpty(WorkerBroken):
    """The answer of a model has no text."""

    code = "answer_empty"


class AnswerUnreadable(WorkerBroken):
    """The answer does not match `Card.accept`."""

    code = "answer_unreadable"


class AnswerNotUtf8(WorkerBroken):
    """The bytes of the answer are not UTF-8."""

    code = "answer_not_utf8"


class WorkerFailed(WorkerError):
    """The worker's code raised; `__cause__` is the original exception."""

    code = "worker_failed"


class NestedLimit(WorkerFailed):
    """A nested run has no answer because of its own limits or the limits of an outer run."""

    code = LimitExceeded.code


class ToolFailed(WorkerFailed):
    """The tool reported an error."""

    code = "tool_failed"


class AgentFailed(WorkerFailed):
    """An agent reported that its task failed or was cancelled."""

    code = "agent_failed"


class AgentRejected(WorkerRefused):
    """An agent rejected the task, or needs more input or authorization, which a step cannot give."""

    code = "agent_rejected"


def install_hint(package: str) -> str:
    """Return a command that installs a package, as `podium-conductor[mcp]`, beside what is there."""
    is_uv = find_spec("pip") is None  # an environment of uv, or of one of its tools
    install = "uv pip install --python {}" if is_uv else "{} -m pip install"
    return f"run `{install.format(quote(sys.executable))} '{package}'`"


def unknown_options(of: str, given: Iterable[str], known: Iterable[str]) -> str:
    """Return what is wrong with names of options, nearest known names first; empty if all are known."""
    names = list(dict.fromkeys(known))
    if not (unknown := sorted(set(given).difference(names))):
        return ""
    near = [name for each in unknown for name in get_close_matches(each, names, n=1)]
    meant = f" (did you mean {', '.join(near)}?)" if near else ""
    return f"{of} does not accept {', '.join(unknown)}{meant}: its options are {', '.join(names)}"
