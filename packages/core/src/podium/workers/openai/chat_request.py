"""Builds the body of a chat completions request, with the fields that its provider supports."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from podium.types.messages import Constraint, Message, Sampling, Tools
from podium.workers.openai.providers import Provider

_PLAIN = Sampling()
ANY_OBJECT = {"type": "object"}
"""The JSON schema of any object, for which APIs have a mode of their own."""


def merge_sampling(defaults: Sampling, wanted: Sampling) -> Sampling:
    """Return `defaults`, with the values that `wanted` sets."""
    if wanted == _PLAIN:
        return defaults
    names = [f.name for f in fields(Sampling)]
    said = {name: value for name in names if (value := getattr(wanted, name)) not in (None, ())}
    return Sampling(**{name: getattr(defaults, name) for name in names} | said)


def chat_body(
    provider: Provider,
    model: str,
    messages: Sequence[Message],
    sampling: Sampling,
    *,
    stream: bool,
    tools: Tools | None = None,
) -> dict[str, Any]:
    """Return the body of a request, without fields that the provider or the model does not support.

    Args:
        provider: the provider.
        model: the name of the model on the server.
        messages: the conversation.
        sampling: temperature, limits and constraints; values that are not set are not sent.
        stream: whether the response is streamed.
        tools: the tools that the model may call; `None` for no tools.
    """
    body: dict[str, Any] = {"model": model, "messages": [message.to_wire() for message in messages]}
    omitted = provider.omits(model)
    if stream:
        body["stream"] = True
        if "stream_options" not in omitted:
            body["stream_options"] = {"include_usage": True}
    if tools is not None:
        body["tools"] = list(tools.offered)
        if tools.choice is not None:
            body["tool_choice"] = tools.choice
    if sampling == _PLAIN:
        return body
    plain = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
    }
    body.update({name: value for name, value in plain.items() if value is not None and name not in omitted})
    if sampling.max_tokens is not None:
        body[provider.max_tokens] = sampling.max_tokens
    if sampling.effort is not None and provider.effort == "reasoning":
        body["reasoning"] = {"effort": sampling.effort}
    elif sampling.effort is not None and provider.effort is not None:
        body[provider.effort] = sampling.effort
    if sampling.constraint is not None:
        body.update(_constraint_fields(provider, sampling.constraint))
    return body


def _constraint_fields(provider: Provider, constraint: Constraint) -> dict[str, Any]:
    match provider.constraints.get(constraint.kind):
        case "structured_outputs":
            return {"structured_outputs": {constraint.kind: constraint.value}}
        case "response_format" if constraint.value == ANY_OBJECT:
            return {"response_format": {"type": "json_object"}}
        case "response_format":
            strict = _is_strict(constraint.value)
            schema = {"name": "answer", "schema": constraint.value, "strict": strict}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case "grammar":
            return {"grammar": constraint.value}
        case None:
            return {}


def _is_strict(schema: object) -> bool:
    """Return whether OpenAI's strict mode accepts a schema: all objects are closed and whole."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if isinstance(properties := schema.get("properties"), dict):
        required = schema.get("required")
        is_whole = isinstance(required, list) and set(map(str, required)) == set(properties)
        if schema.get("additionalProperties") is not False or not is_whole:
            return False
        return all(map(_is_strict, properties.values())) and _is_strict(schema.get("$defs", {}))
    return schema.get("type") != "object" and all(map(_is_strict, schema.values()))
