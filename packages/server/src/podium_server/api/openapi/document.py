"""Makes the OpenAPI document."""

import inspect
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from podium_server.api.endpoint import Endpoint
from podium_server.api.openapi.operations import EVENTS, JSON, OPERATIONS, Operation

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
    """Return the OpenAPI document of a server.

    Args:
        endpoints: the routes of the server.
    """
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
