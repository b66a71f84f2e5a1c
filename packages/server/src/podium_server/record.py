"""What is known about the request that is answered, for its line in the log and for the metrics.

The record of a request is in the context of its task. So whatever answers the request, also behind the SDKs
of MCP and A2A, can add what it knows. It has no text of a question, of an answer or of an error.
"""

from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from uuid import uuid4

from podium.types import Result

CLIENT_GONE = "client_disconnected"
"""The code of a request whose client disconnected before the end of the response."""
STOPPED = "server_stopped"
"""The code of a request that ended because the server stopped."""


@dataclass(slots=True)
class Record:
    """What is known about a request."""

    method: str = ""
    route: str = ""
    """The path of its route; empty if it has none."""
    began: float = field(default_factory=monotonic)
    """When the request began, on the monotonic clock."""
    key_id: str = ""
    """The id of the API key; empty if there is none, or it is not known."""
    model: str = ""
    """The name of the model; empty for a request without one, or with an unknown one."""
    run_id: str = ""
    code: str = ""
    """The code of the error; empty if the request succeeded."""
    first_token: float | None = None
    """Seconds until the first piece of the text of a streamed answer; `None` if there was none."""
    request_id: str = field(default_factory=lambda: f"req_{uuid4().hex}")
    """Names the request in its error, if it has no run."""
    result: Result | None = None
    """The result of the run; `None` if the run has not ended."""

    def of_model(self, model: str, run_id: str | None) -> "Record":
        """Set the model of the request, and return this record.

        A task that a request starts may continue the run of another request: the record for that run is one
        that nobody reads.
        """
        record = self if self.run_id in ("", run_id) else Record()
        record.model = model
        return record

    def text_begins(self) -> None:
        """Set the time of the first piece of the text."""
        if self.first_token is None:
            self.first_token = monotonic() - self.began

    @property
    def seconds(self) -> float:
        """The seconds since the request began."""
        return monotonic() - self.began


_CURRENT: ContextVar[Record] = ContextVar("podium_server_record")


def begin_record(method: str, route: str) -> Record:
    """Return the new record of the request that the current task answers."""
    record = Record(method, route)
    _CURRENT.set(record)
    return record


def current_record() -> Record:
    """Return the record of the request that is answered; outside of requests, a record that nobody reads."""
    return _CURRENT.get(None) or Record()
