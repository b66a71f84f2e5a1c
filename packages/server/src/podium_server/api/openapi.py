"""The OpenAPI document of the server, with the bodies, parameters and responses of its routes."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from podium_server.api.chat import ChatRequest
from podium_server.api.endpoint import Endpoint
from podium_server.api.keys import (
    ChangedKey,
    KeyChanges,
    KeyDetail,
    KeyList,
    Login,
    NewKey,
    OwnKey,
    Rotation,
    SessionState,
)
from podium_server.api.messages.request import CountRequest, MessagesRequest
from podium_server.api.responses.request import ResponseRequest
from podium_server.api.runs.costs import PATH as SUMS_PATH, ForecastAnswer, Sums, SumsQuery
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
from podium_server.http import Exchange
from podium_server.keys import Caller

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


PATH = "/openapi.json"
_REF = "#/components/schemas/{model}"
_NONE = Operation()
_TAGS = {"responses": "responses", "chat": "chat completions", "messages": "messages", "runs": "runs"}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {
                    "type": ["string", "null", "integer"],
                    "description": "The code of the error; a number of JSON-RPC for MCP and A2A.",
                },
                "run_id": {"type": "string"},
            },
        }
    },
}


def openapi_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document of a server."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = openapi_path(endpoint.path)
        operation = OPERATIONS.get((endpoint.method, path), _NONE)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, path, operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Podium", "version": version("podium-server"), "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": _schemas() | {"Error": _ERROR}, "securitySchemes": _KEYS},
        "security": [{"bearer": []}, {"key": []}, {"session": []}, {}],
    }


_ABOUT = "Teams of models behind the APIs of OpenAI and Anthropic. A server without keys needs none."
_KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "session": {"type": "apiKey", "in": "cookie", "name": "podium_session"},
}


def openapi_path(path: str) -> str:
    """Return the path of a route in the form of OpenAPI: without the types of its parameters."""
    return re.sub(r"\{(\w+)(:\w+)?\}", r"{\1}", path)


def _operation(endpoint: Endpoint, path: str, operation: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": _name(endpoint.method, path),
        "tags": [_tag(path)],
        "summary": (inspect.getdoc(endpoint.handle) or "").partition("\n")[0],
        "parameters": [*_parameters(path), *_query(operation.query), *_headers(operation)],
        "responses": {
            str(operation.status): {"description": "The answer.", "content": _content(operation)},
            "default": {"description": "An error.", "content": {JSON: {"schema": _ref("Error")}}},
        },
    }
    if endpoint.is_open:
        made["security"] = []
    if operation.body is not None or operation.takes_json:
        schema = {"type": "object"} if operation.body is None else _ref(operation.body.__name__)
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return made


def _content(operation: Operation) -> dict[str, Any]:
    result = {} if operation.result is None else _ref(operation.result.__name__)
    return {kind: {"schema": result if kind == JSON else {"type": "string"}} for kind in operation.types}


def _parameters(path: str) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query(model: type[BaseModel] | None) -> Iterator[dict[str, Any]]:
    if model is None:
        return
    schema = model.model_json_schema()
    for name, form in schema["properties"].items():
        yield {"name": name, "in": "query", "required": False, "schema": form}


def _headers(operation: Operation) -> Iterator[dict[str, Any]]:
    if operation.is_idempotent:
        schema = {"type": "string", "minLength": 1, "maxLength": 255}
        yield {"name": "Idempotency-Key", "in": "header", "required": False, "schema": schema}
    if EVENTS in operation.types and operation.query is not None:
        yield {"name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "integer"}}


def _schemas() -> dict[str, Any]:
    bodies = {each.body for each in OPERATIONS.values() if each.body is not None}
    results = {each.result for each in OPERATIONS.values() if each.result is not None}
    wanted: Any = [(model, "validation") for model in bodies] + [
        (model, "serialization") for model in results
    ]
    wanted.sort(key=lambda pair: pair[0].__name__)
    _, schema = models_json_schema(wanted, ref_template=_REF)
    schemas: dict[str, Any] = schema["$defs"]
    return schemas


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _REF.format(model=name)}


def _name(method: str, path: str) -> str:
    words = re.findall(r"\w+", path.removeprefix("/v1"))
    return "_".join([method.lower(), *words])


def _tag(path: str) -> str:
    part = path.removeprefix("/v1").strip("/").partition("/")[0]
    return _TAGS.get(part, "server")


class OpenApi:
    """`GET /openapi.json`."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make
        self._document: dict[str, Any] | None = None

    async def show(self, exchange: Exchange, _: Caller) -> None:
        """Show the OpenAPI document of the server."""
        if self._document is None:
            self._document = self._make()
        await exchange.json(self._document)
