"""Everything Podium raises on purpose, and nothing else.

    PodiumError
    ├── ConfigError            a setting, card, pool or argument is wrong
    ├── QueryError             what was asked cannot be taken as a question
    ├── PlanError              plan text or a plan is wrong (data, when a model wrote it)
    │   ├── PlanSyntaxError    no plan can be read from the text
    │   ├── PlanInvalid        a plan was read and breaks a rule
    │   └── PlanForbidden      a plan was read and the policy does not allow it
    ├── PlannerError           no planner wrote a plan that can be used
    ├── LimitExceeded          going on would spend more than the run may
    ├── JournalError           the journal cannot be read or written
    │   ├── RunUnknown         it holds no such run
    │   ├── RunExists          it holds another run of this id
    │   ├── RunHeld            someone else carries the run out
    │   ├── RunLost            someone else has taken the run over
    │   ├── RunDead            the run was taken up too often to no end
    │   └── JournalBroken      what it holds is not what was written, or of another version
    ├── ListenerFailed         what was to be told of a run's events raised
    ├── RunFailed              a run came to no answer, where one was to be returned
    └── WorkerError            one call of one worker went wrong
        ├── WorkerUnavailable  it could not be reached, or says it is overloaded or down
        ├── WorkerRefused      it understood the request and will not serve it
        │   ├── AnswerRefused      the model or a content filter refused to answer
        │   ├── AgentRejected      a remote agent does not take the task
        │   ├── AgentNeedsInput    a remote agent asks something before it goes on
        │   └── AgentNeedsAuth     a remote agent wants to be authorized before it goes on
        ├── WorkerTimeout      it did not answer in time; if it was sent, it may be paid
        ├── WorkerBroken       what came back is not a whole answer
        │   ├── AnswerToolCalls    the answer calls tools, and none were offered
        │   └── AnswerNotUtf8      the answer's bytes are not UTF-8
        └── WorkerFailed       code behind a worker raised
            ├── ToolFailed         the tool says that it failed
            └── AgentFailed        a remote agent says that its task failed, or has cancelled it

Every error has a stable `code`, which is what is journalled and matched on; the
sentence says what was wrong and how to mend it. Errors of libraries are translated
once, at the module that talks to the outside, always `from` the original.
"""

from collections.abc import Sequence
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
]


class PodiumError(Exception):
    """Base of everything Podium raises on purpose."""

    code: str = "podium"
    """Stable name of what went wrong, the same in every release."""


class ConfigError(PodiumError):
    """A setting, card, pool or argument is wrong; nothing was started."""

    code = "config"


class QueryError(PodiumError):
    """What was asked cannot be taken as a question; nothing was started."""

    code = "query"


class PlanError(PodiumError):
    """Plan text or a plan is wrong."""

    code = "plan"


class PlanSyntaxError(PlanError):
    """No plan can be read from the text."""

    def __init__(self, code: PlanSyntaxCode, message: str, *, position: int) -> None:
        super().__init__(message)
        self.code = code
        self.position = position
        """Offset in the text, in characters from 0."""


class PlanInvalid(PlanError):
    """A plan was read and breaks a rule."""

    def __init__(
        self,
        code: PlanInvalidCode,
        message: str,
        *,
        step: int | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.step = step
        """Index of the offending step from 0; `None` when the plan as a whole is wrong."""
        self.position = position
        """Offset in the text, in characters from 0; `None` when the plan came without text."""


class PlanForbidden(PlanError):
    """A plan was read and the policy does not allow it."""

    code = "policy"

    def __init__(self, message: str, *, step: int | None = None) -> None:
        super().__init__(message)
        self.step = step
        """Index of the offending step from 0; `None` when the plan as a whole is not allowed."""


PlannerErrorCode = Literal[
    "planner_unreachable", "planner_refused", "planner_unusable", "planner_limit", "planner_failed"
]
"""Why there is no plan: no whole reply came (network, timeouts, 429, 5xx) and the retries are used up; the
planner refused, or may not see the question; its text is no plan, and the repair is none either; the call
does not fit the limits of the run; or the code of the planner raised."""


class PlannerError(PodiumError):
    """No planner wrote a plan that can be used, so that there is no answer.

    A run with a journal is recorded as failed before this is raised, and can be resumed: the
    planner is then asked again.
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
        """The run without a plan."""
        self.calls = tuple(calls)
        """The `Proposal` of each call of a planner, in order: the planner, its text, and the problem."""
        self.usage = usage
        """Tokens that the run used."""
        self.cost = cost
        """What the run cost, in USD; `None` when it is unknown."""


class LimitExceeded(PodiumError):
    """Going on would spend more than the run may."""

    code = "limit"

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit
        """The field of `Limits` that was reached."""


class JournalError(PodiumError):
    """The journal cannot be read or written; nothing that was acknowledged is lost."""

    code = "journal"
    result: Any = None
    """The `Result` that could not be recorded, which is paid for; `None` where there is none."""


class RunUnknown(JournalError):
    """The journal holds no such run."""

    code = "run_unknown"


class RunExists(JournalError):
    """The journal holds a run of this id, for another query."""

    code = "run_exists"


class RunHeld(JournalError):
    """Someone else carries the run out."""

    code = "run_held"


class RunLost(JournalError):
    """Someone else has taken the run over; what was done since does not count."""

    code = "run_lost"


class RunDead(JournalError):
    """The run was taken up too often without coming to an end."""

    code = "run_dead"


class JournalBroken(JournalError):
    """What the journal holds is not what was written, or of a version this one does not read."""

    code = "journal_broken"


class ListenerFailed(PodiumError):
    """A callback that a run's events are told to raised; the run went on to its end without it."""

    code = "listener"
    result: Any = None
    """The `Result` the run came to; `None` where it came to none."""


class RunFailed(PodiumError):
    """A run came to no answer, and whoever asked takes nothing else; `run` itself returns what it came to."""

    code = "run_failed"
    result: Any = None
    """The `Result`."""


class WorkerError(PodiumError):
    """One call of one worker went wrong."""

    code = "worker"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        maybe_paid: bool = False,
        usage: Usage | None = None,
        cost: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status, where there was one."""
        self.retry_after = retry_after
        """Seconds the worker asked us to wait; `None` when it did not say."""
        self.maybe_paid = maybe_paid
        """Whether the request had been sent, so that it may be on the bill all the same."""
        self.usage = usage
        """What is known to have been used up; `None` leaves it to an estimate."""
        self.cost = cost
        """What that cost in USD, where `usage` is known; `None` means unknown."""


class WorkerUnavailable(WorkerError):
    """The worker could not be reached, or says it is overloaded or down."""

    code = "worker_unavailable"


class WorkerRefused(WorkerError):
    """The worker understood the request and will not serve it: key, model, input, content."""

    code = "worker_refused"


class AnswerRefused(WorkerRefused):
    """The model, or a content filter of its provider, refused to answer."""

    code = "answer_refused"


class WorkerTimeout(WorkerError):
    """The worker did not answer in time."""

    code = "worker_timeout"


class WorkerBroken(WorkerError):
    """What came back is not a whole answer: garbage, cut off, empty, without an end."""

    code = "worker_broken"


class AnswerToolCalls(WorkerBroken):
    """The answer calls tools, and the request offered none."""

    code = "answer_tool_calls"


class AnswerNotUtf8(WorkerBroken):
    """The bytes of the answer are not UTF-8."""

    code = "answer_not_utf8"


class WorkerFailed(WorkerError):
    """Code behind a worker raised; the original is its `__cause__`."""

    code = "worker_failed"


class ToolFailed(WorkerFailed):
    """The tool was called, and says that it failed."""

    code = "tool_failed"


class AgentFailed(WorkerFailed):
    """A remote agent says that its task failed, or has cancelled the task itself."""

    code = "agent_failed"


class AgentRejected(WorkerRefused):
    """A remote agent does not take the task."""

    code = "agent_rejected"


class AgentNeedsInput(WorkerRefused):
    """A remote agent asks something before it goes on, and a step has nobody to answer."""

    code = "agent_needs_input"


class AgentNeedsAuth(WorkerRefused):
    """A remote agent wants to be authorized before it goes on."""

    code = "agent_needs_auth"
