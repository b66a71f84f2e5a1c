"""The bodies, parameters and responses of the routes, by method and path."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from podium_server.api.chat.request import ChatRequest
from podium_server.api.keys import ChangedKey, KeyChanges, KeyDetail, KeyList, NewKey, Rotation
from podium_server.api.messages.request import CountRequest, MessagesRequest
from podium_server.api.own_key import OwnKey
from podium_server.api.responses.request import ResponseRequest
from podium_server.api.runs.forecast import ForecastAnswer
from podium_server.api.runs.forms import RunDetail, RunList
from podium_server.api.runs.prompts import PromptList
from podium_server.api.runs.requests import (
    ActionEnd,
    Approval,
    ChangedRun,
    Decision,
    EditedPlan,
    EventsQuery,
    ListQuery,
    NewRun,
    PlanToForecast,
    PromptsQuery,
    ReplayedRun,
)
from podium_server.api.runs.sums import PATH as SUMS_PATH, Sums, SumsQuery
from podium_server.api.session import Login, SessionState

JSON = "application/json"
EVENTS = "text/event-stream"
TEXT = "text/plain"
HTML = "text/html"
FILES = ("text/css", "text/html", "text/javascript", "text/plain", "image/svg+xml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a route reads and returns."""

    body: type[BaseModel] | None = None
    takes_json: bool = False
    """Whether the body is a JSON object of another specification."""
    query: type[BaseModel] | None = None
    result: type[BaseModel] | None = None
    """The response; `None` for the JSON of the specification that the route follows."""
    status: int = 200
    types: tuple[str, ...] = (JSON,)
    """The content types of the response."""
    is_idempotent: bool = False
    """Whether the header `Idempotency-Key` names the run."""


def _run(body: type[BaseModel] | None = None, status: int = 202, *, is_idempotent: bool = False) -> Operation:
    return Operation(
        body=body, takes_json=body is None, result=RunDetail, status=status, is_idempotent=is_idempotent
    )


_RUN = "/v1/runs/{run_id}"
OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", "/"): Operation(types=(HTML,)),
    ("GET", "/viewer/{file}"): Operation(types=FILES),
    ("GET", "/session"): Operation(result=SessionState),
    ("POST", "/session"): Operation(body=Login, result=SessionState),
    ("GET", "/v1/keys/self"): Operation(result=OwnKey),
    ("GET", "/v1/keys"): Operation(result=KeyList),
    ("POST", "/v1/keys"): Operation(body=NewKey, result=KeyDetail, status=201),
    ("GET", "/v1/keys/changes"): Operation(result=KeyChanges),
    ("GET", "/v1/keys/{key}"): Operation(result=KeyDetail),
    ("POST", "/v1/keys/{key}"): Operation(body=ChangedKey, result=KeyDetail),
    ("DELETE", "/v1/keys/{key}"): Operation(result=KeyDetail),
    ("POST", "/v1/keys/{key}/rotate"): Operation(body=Rotation, result=KeyDetail),
    ("GET", "/metrics"): Operation(types=(TEXT,)),
    ("POST", "/v1/chat/completions"): Operation(body=ChatRequest, types=(JSON, EVENTS), is_idempotent=True),
    ("POST", "/v1/responses"): Operation(body=ResponseRequest, types=(JSON, EVENTS), is_idempotent=True),
    ("POST", "/v1/responses/compact"): Operation(takes_json=True),
    ("GET", "/v1/responses/{response_id}"): Operation(types=(JSON, EVENTS)),
    ("POST", "/v1/messages"): Operation(body=MessagesRequest, types=(JSON, EVENTS), is_idempotent=True),
    ("POST", "/v1/messages/count_tokens"): Operation(body=CountRequest),
    ("POST", "/mcp"): Operation(takes_json=True, types=(JSON, EVENTS)),
    ("POST", "/a2a/{model}"): Operation(takes_json=True, types=(JSON, EVENTS)),
    ("GET", "/v1/runs"): Operation(query=ListQuery, result=RunList),
    ("POST", "/v1/runs"): _run(NewRun, is_idempotent=True),
    ("GET", _RUN): Operation(result=RunDetail),
    ("GET", f"{_RUN}/events"): Operation(query=EventsQuery, types=(EVENTS,)),
    ("GET", f"{_RUN}/prompts"): Operation(query=PromptsQuery, result=PromptList),
    ("POST", f"{_RUN}/forecast"): Operation(body=PlanToForecast, result=ForecastAnswer),
    ("GET", SUMS_PATH): Operation(query=SumsQuery, result=Sums),
    ("POST", f"{_RUN}/approve"): _run(Approval),
    ("POST", f"{_RUN}/refuse"): _run(Decision),
    ("POST", f"{_RUN}/edit"): _run(EditedPlan),
    ("POST", f"{_RUN}/decide"): _run(ActionEnd),
    ("POST", f"{_RUN}/cancel"): Operation(result=RunDetail),
    ("POST", f"{_RUN}/resume"): _run(ChangedRun),
    ("POST", f"{_RUN}/replay"): _run(ReplayedRun),
}
"""The operations of the routes. A route without an entry reads no body and returns JSON."""
