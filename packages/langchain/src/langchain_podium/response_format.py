"""Request an answer in a structured format, and parse the answer of a run.

The schema is offered to the worker of the plan's last step as a tool that it must call. An answer that does
not fit raises an error; no value is invented.
"""

import json
from typing import Any

from jsonschema import Draft202012Validator, ValidationError as SchemaMismatch
from jsonschema.exceptions import best_match
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from referencing import Registry

from podium.errors import ConfigError, RunFailed
from podium.hosts.results import answered, run_failed, tool_arguments
from podium.secrets import scrub
from podium.types import Constraint, Result, Sampling, Tools

_MAX_QUOTE = 500


def validator_of(schema: dict[str, Any]) -> Draft202012Validator:
    """Return a validator for a JSON schema; it follows no reference out of the schema."""
    return Draft202012Validator(schema, registry=Registry())


def checked(data: Any, validator: Draft202012Validator) -> Any:
    """Return the data if they fit the schema of a validator."""
    if (error := best_match(validator.iter_errors(data))) is not None:
        raise error
    return data


class ResponseFormat:
    """The structured format of an answer."""

    def __init__(self, schema: dict[str, Any] | type) -> None:
        is_model = isinstance(schema, type) and is_basemodel_subclass(schema)
        self._model: Any = schema if is_model else None
        try:
            tool = convert_to_openai_tool(schema)
        except (TypeError, ValueError, NotImplementedError) as error:
            told = "response_format must be a Pydantic class, a TypedDict, or a JSON schema with a title"
            raise ConfigError(f"{told}: {scrub(str(error))[:_MAX_QUOTE]}") from error
        self.name: str = tool["function"]["name"]
        self.tools = Tools((tool,), {"type": "function", "function": {"name": self.name}})
        # for workers without tools, which are asked for it in words
        self.schema: dict[str, Any] = tool["function"].get("parameters") or {"type": "object"}
        self.sampling = Sampling(constraint=Constraint("json", self.schema))
        self._validator = validator_of(self.schema)

    def read(self, result: Result) -> Any:
        """Return the parsed answer of a run: an object of the Pydantic class, else a dict."""
        answered(result, partial="raise")
        try:
            return self._checked(self._data(result))
        except (ValueError, SchemaMismatch) as error:
            raise self._unread(result, scrub(str(error))) from error

    def text(self, response: Any) -> str:
        """Return a parsed answer as JSON."""
        if self._model is not None and hasattr(response, "model_dump_json"):
            return str(response.model_dump_json())
        return json.dumps(response, ensure_ascii=False, default=str)

    def _data(self, result: Result) -> Any:
        """Return the arguments of the tool call, or the JSON in the text if the worker accepts no tools."""
        for call in result.tool_calls:
            if call["function"].get("name") == self.name:
                if (arguments := tool_arguments(call)) is None:
                    raise ValueError("the arguments of the call are not a JSON object")
                return arguments
        text = result.answer.strip()
        if text.startswith("```"):
            text = text.removesuffix("```").partition("\n")[2]
        return json.loads(text)

    def _checked(self, data: Any) -> Any:
        if self._model is not None:
            read = getattr(self._model, "model_validate", None) or self._model.parse_obj  # Pydantic 1
            return read(data)
        return checked(data, self._validator)

    def _unread(self, result: Result, why: str) -> RunFailed:
        hint = "" if result.tool_calls else " (its worker called no tool: see `takes_tools` of the workers)"
        return run_failed(f"the answer cannot be read as {self.name}{hint}: {why[:_MAX_QUOTE]}", result)
