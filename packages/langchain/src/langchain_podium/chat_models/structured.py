"""Parse a chat model's message as structured output.

The module only uses `bind` and `bind_tools` of the model.
"""

import json
import re
from operator import itemgetter
from typing import Any, Final, Literal, get_args

from jsonschema import ValidationError
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import (
    BaseOutputParser,
    JsonOutputParser,
    PydanticOutputParser,
)
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import Generation
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass

from langchain_podium.response_format import checked, validator_of
from podium.errors import ConfigError

Method = Literal["function_calling", "json_schema", "json_mode"]
"""How an answer is structured: as the arguments of a tool; by the server's constraint; or only by the
question.
"""
Schema = dict[str, Any] | type

_MAX_QUOTE: Final = 500
_FENCE: Final = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL)


def structured(
    model: BaseChatModel, schema: Schema, *, method: Method, strict: bool | None, include_raw: bool
) -> Runnable[LanguageModelInput, Any]:
    """Return `model` with its answers parsed according to `schema`."""
    if method not in get_args(Method):
        raise ConfigError(f"method is {method!r}: it must be one of {', '.join(get_args(Method))}")
    told = {"ls_structured_output_format": {"kwargs": {"method": method, "strict": strict}, "schema": schema}}
    if method == "function_calling":
        name = convert_to_openai_tool(schema)["function"]["name"]
        asked: Runnable[LanguageModelInput, Any] = model.bind_tools(
            [schema], tool_choice=name, strict=strict, **told
        )
    elif method == "json_schema":
        form = {"name": "answer", "schema": convert_to_json_schema(schema, strict=strict)}
        asked = model.bind(response_format={"type": "json_schema", "json_schema": form}, **told)
    elif strict is not None:
        raise ConfigError("json_mode has no schema to enforce: leave out strict, or use json_schema")
    else:
        asked = model.bind(**told)
    parser = _parser(schema, called=method == "function_calling")
    return _with_raw(asked, parser) if include_raw else asked | parser


def _parser(schema: Schema, *, called: bool) -> BaseOutputParser[Any]:
    model: Any = schema if isinstance(schema, type) and is_basemodel_subclass(schema) else None
    if called and model is not None:
        return _WholeModel(tools=[model], first_tool_only=True)
    if called:
        function = convert_to_openai_tool(schema)["function"]
        form = function.get("parameters") or {}
        return _WholeArguments(key_name=function["name"], first_tool_only=True, form=form)
    if model is None:
        return _WholeJson(form=convert_to_json_schema(schema))
    return _WholeModelText(pydantic_object=model)


def _check_complete(result: list[Generation]) -> None:
    """Raise for an incomplete answer, in a stream at its last chunk: an object would look complete."""
    message = getattr(result[0], "message", None)
    facts = message.response_metadata.get("podium") if isinstance(message, AIMessage) else None
    if facts and facts.get("problem"):
        told = f"the answer is partial: {facts['problem']['message']}"
        raise OutputParserException(told, llm_output=result[0].text)


class _WholeCall(BaseOutputParser[Any]):
    """Parses a tool call, and raises if it is missing or cut; LangChain's parsers return `None`."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """Return the arguments of the tool call; within a stream, the arguments so far."""
        _check_complete(result)
        message = getattr(result[0], "message", None)
        if not partial and isinstance(message, AIMessage) and not message.tool_calls:
            broken = [call["args"] for call in message.invalid_tool_calls]
            told = (
                f"the arguments of the call are cut or not a JSON object: {broken}" if broken else "no call"
            )
            raise OutputParserException(f"the answer cannot be read: {told}")
        return super().parse_result(result, partial=partial)


class _WholeModel(_WholeCall, PydanticToolsParser):
    pass


class _Formed(BaseOutputParser[Any]):
    """Parses data, and raises if they do not fit the JSON schema."""

    form: dict[str, Any]

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """Return the data if they fit the schema; within a stream, the data so far."""
        data = super().parse_result(result, partial=partial)
        if partial:
            return data
        try:
            return checked(data, validator_of(self.form))
        except ValidationError as error:
            told = f"the answer does not fit the schema: {error.message[:_MAX_QUOTE]}"
            raise OutputParserException(told) from error


class _WholeArguments(_Formed, _WholeCall, JsonOutputKeyToolsParser):
    pass


class _WholeText(BaseOutputParser[Any]):
    """Parses JSON text, and raises if it is cut; LangChain's parsers would guess the rest."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """Return the JSON in the text; within a stream, the JSON so far."""
        _check_complete(result)
        if not partial:
            text = result[0].text.strip()
            fenced = _FENCE.search(text)
            try:
                json.loads(fenced[1] if fenced else text, strict=False)
            except ValueError as error:
                told = f"the answer is not complete JSON: {error}"
                raise OutputParserException(told, llm_output=text) from error
        return super().parse_result(result, partial=partial)


class _WholeJson(_Formed, _WholeText, JsonOutputParser):
    pass


class _WholeModelText(_WholeText, PydanticOutputParser[Any]):
    pass


def _with_raw(
    asked: Runnable[LanguageModelInput, Any], parser: BaseOutputParser[Any]
) -> Runnable[LanguageModelInput, Any]:
    """Return a Runnable that also returns the message, and the parsing error instead of raising it."""
    parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
    unparsed = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=asked) | parsed.with_fallbacks([unparsed], exception_key="parsing_error")
