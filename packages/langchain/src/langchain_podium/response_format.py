"""Answers in a structured format: how they are asked for, and how they are read.

An answer that is cut, or that does not fit its schema, raises an error; no value is invented.
"""

import json
import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, Literal, get_args

from jsonschema import Draft202012Validator, ValidationError as SchemaMismatch
from jsonschema.exceptions import best_match
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from referencing import Registry

from langchain_podium.messages import write_calls
from podium.errors import ConfigError
from podium.hosts.results import answered, run_failed, tool_arguments
from podium.secrets import scrub
from podium.types import Constraint, Part, Result, Sampling, Tools

Method = Literal["function_calling", "json_schema", "json_mode"]
"""How an answer is structured: as the arguments of a tool; by the server's constraint; or only by the
question.
"""
Schema = dict[str, Any] | type
_MAX_QUOTE: Final = 500
_FENCE: Final = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL)


class ResponseFormat:
    """The structured format of an answer: a Pydantic class, a `TypedDict` or a JSON schema with a title."""

    def __init__(self, schema: Schema) -> None:
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
        self._validator = Draft202012Validator(self.schema, registry=Registry())  # opens no URLs

    def read(self, result: Result) -> Any:
        """Return the parsed answer of a run: an object of the Pydantic class, else a dict."""
        answered(result, partial="raise")
        try:
            return self._parsed(result.tool_calls, result.answer)
        except (ValueError, SchemaMismatch) as error:
            hint = (
                "" if result.tool_calls else " (its worker called no tool: see `takes_tools` of the workers)"
            )
            why = scrub(str(error))[:_MAX_QUOTE]
            raise run_failed(f"the answer cannot be read as {self.name}{hint}: {why}", result) from error

    def read_message(self, message: AIMessage) -> Any:
        """Return the parsed answer in a message of `ChatPodium`; raise `OutputParserException`."""
        text = str(message.text)
        if problem := message.response_metadata.get("podium", {}).get("problem"):
            raise OutputParserException(f"the answer is partial: {problem['message']}", llm_output=text)
        try:
            return self._parsed(write_calls(message), text)
        except (ValueError, SchemaMismatch) as error:
            why = error.message if isinstance(error, SchemaMismatch) else str(error)
            told = f"the answer cannot be read as {self.name}: {why[:_MAX_QUOTE]}"
            raise OutputParserException(told, llm_output=text) from error

    def text(self, response: Any) -> str:
        """Return a parsed answer as JSON."""
        if self._model is not None and hasattr(response, "model_dump_json"):
            return str(response.model_dump_json())
        return json.dumps(response, ensure_ascii=False, default=str)

    def _parsed(self, calls: Sequence[Part], text: str) -> Any:
        """Return the arguments of the tool call, or the JSON in the text if the worker called no tool."""
        call = next((each for each in calls if each["function"].get("name") == self.name), None)
        if call is None:
            fenced = _FENCE.search(text)
            data = json.loads(fenced[1] if fenced else text.strip(), strict=False)
        elif (data := tool_arguments(call)) is None:
            raise ValueError("the arguments of the call are cut or not a JSON object")
        if self._model is not None:
            read = getattr(self._model, "model_validate", None) or self._model.parse_obj  # Pydantic 1
            return read(data)
        if (error := best_match(self._validator.iter_errors(data))) is not None:
            raise error
        return data


def structured(
    model: BaseChatModel, schema: Schema, *, method: Method, strict: bool | None, include_raw: bool
) -> Runnable[LanguageModelInput, Any]:
    """Return `model` with its answers parsed according to `schema`."""
    form = ResponseFormat(schema)
    told = {"ls_structured_output_format": {"kwargs": {"method": method, "strict": strict}, "schema": schema}}
    asked: Runnable[LanguageModelInput, Any]
    match method:
        case "function_calling":
            asked = model.bind_tools([schema], tool_choice=form.name, strict=strict, **told)
        case "json_schema":
            shape = {"name": "answer", "schema": convert_to_json_schema(schema, strict=strict)}
            asked = model.bind(response_format={"type": "json_schema", "json_schema": shape}, **told)
        case "json_mode" if strict is not None:
            raise ConfigError("json_mode has no schema to enforce: leave out strict, or use json_schema")
        case "json_mode":
            asked = model.bind(**told)
        case _:
            raise ConfigError(f"method is {method!r}: it must be one of {', '.join(get_args(Method))}")
    reader = RunnableLambda(form.read_message)
    if not include_raw:
        return asked | reader
    parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | reader, parsing_error=lambda _: None)
    unparsed = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=asked) | parsed.with_fallbacks([unparsed], exception_key="parsing_error")
