"""Reads OpenTelemetry spans in OTLP's JSON, which the collector's file exporter writes.

The attributes are those of the GenAI conventions, OpenLLMetry and OpenInference. Each tuple of names has the
current name first, then older names, then the names of other conventions.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from podium_evals.audit.queries import Kind, Span
from podium_evals.audit.texts import (
    Answer,
    Failure,
    chat_answer,
    count,
    digests,
    failure,
    finish_of,
    mapping,
    number,
    question_of,
    text,
    tier_of,
    usage_of,
)

OPERATION = ("gen_ai.operation.name", "llm.request.type")
SPAN_KIND = ("openinference.span.kind", "traceloop.span.kind")
PROVIDER = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
BASE_URL = ("gen_ai.openai.api_base", "server.address", "url.full")
MODEL = tuple(
    """
    gen_ai.response.model gen_ai.request.model llm.response.model_name llm.model_name
    llm.request.model_name embedding.model_name llm.response.model llm.request.model
    """.split()  # noqa: SIM905 - a list has a line for each
)
TIER = ("openai.response.service_tier", "gen_ai.openai.response.service_tier")
INPUT = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
)
OUTPUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
)
CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)
CACHE_WRITES = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
)
REASONING = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "llm.usage.reasoning_tokens",
)
COST = ("gen_ai.usage.cost", "podium.cost", "llm.cost.total", "gen_ai.usage.total_cost")
FINISH = ("gen_ai.response.finish_reasons", "llm.finish_reason", "gen_ai.completion.0.finish_reason")
STEP = (
    "gen_ai.agent.name",
    "agent.name",
    "graph.node.name",
    "traceloop.entity.name",
    "gen_ai.tool.name",
    "tool.name",
)
PROMPT = ("gen_ai.input.messages", "gen_ai.prompt")
PROMPT_PREFIXES = ("llm.input_messages.", "gen_ai.prompt.")
ANSWER = ("gen_ai.output.messages", "gen_ai.completion")
ANSWER_PREFIXES = ("llm.output_messages.", "gen_ai.completion.")
QUESTION = ("input.value", "traceloop.entity.input")
CALLS = {
    "chat",
    "completion",
    "text_completion",
    "generate_content",
    "embeddings",
    "embedding",
    "rerank",
    "plan",
}
"""Operations that are model calls; a planner call of Podium is one of them."""
WRITING = ("chat", "text_completion", "generate_content")
"""Operations that answer with a text."""
TOOLS = {"execute_tool", "tool"}
AGENTS = {"invoke_agent", "create_agent", "agent", "invoke_workflow"}
CALL_KINDS = {"llm", "embedding", "reranker"}


Attributes = Mapping[str, Any]
_ERROR = (2, "2", "STATUS_CODE_ERROR", "Error")


def is_otlp(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a span."""
    return "traceId" in row and "spanId" in row


def otlp_span(raw: Mapping[str, Any]) -> Span:
    """Return the span of a row."""
    trace, span_id = text(raw["traceId"]), text(raw["spanId"])
    if not trace or not span_id:
        raise ValueError("the span has no id")
    said = _attributes(raw)
    kind = _kind(said)
    failed = _failure(raw, said)
    ended = _time(raw, "endTimeUnixNano")
    prompt = _prompt(said) if kind != "step" else []
    answer = Answer() if failed or kind != "call" else _answer(said)
    read, written = _count(said, INPUT), _count(said, OUTPUT)
    writes, cached = _count(said, CACHE_WRITES) or 0, _count(said, CACHED) or 0
    if read is not None and cached + writes > read:  # as Anthropic counts
        read += cached + writes
    return Span(
        trace=trace,
        id=span_id,
        parent=text(raw.get("parentSpanId")),
        name=text(raw.get("name")),
        kind=kind,
        step=_first(said, STEP),
        started=_time(raw, "startTimeUnixNano"),
        ended=ended,
        is_open=ended is None,
        model=_first(said, MODEL) or text(mapping(_json(said.get("llm.invocation_parameters"))).get("model")),
        provider=_first(said, PROVIDER),
        base_url=_first(said, BASE_URL),
        tier=tier_of(_first(said, TIER)),
        usage=usage_of(read, written, cached, _count(said, REASONING)) if kind in ("call", "agent") else None,
        cache_writes=writes,
        cost=next((found for name in COST if (found := number(said.get(name))) is not None), None),
        error=failed.code if failed else "",
        error_text=failed.text if failed else "",
        prompt=digests(prompt) if kind == "call" else "",
        question=question_of(prompt) or question_of([_first(said, QUESTION)]),
        **answer._asdict(),
    )


def _kind(said: Attributes) -> Kind:
    operation = _first(said, OPERATION[:1]) or _first(said, OPERATION[1:])
    found = {operation.lower(), *(text(said.get(name)).lower() for name in SPAN_KIND)}
    if found & TOOLS:
        return "tool"
    if found & CALLS or found & CALL_KINDS:
        return "call"
    if found & AGENTS:
        return "agent"
    is_call = any(name in said for name in (*INPUT, "gen_ai.request.model"))
    return "call" if is_call and operation.lower() in ("", "unknown") else "step"


def _attributes(raw: Mapping[str, Any]) -> dict[str, Any]:
    found = raw.get("attributes")
    if isinstance(found, Mapping):
        return dict(found)
    pairs = [each for each in found or () if isinstance(each, Mapping)] if isinstance(found, list) else []
    return {text(each.get("key")): _value(each.get("value")) for each in pairs}


def _value(value: object) -> Any:
    """Return the value of an attribute. OTLP writes a value under a key that says its type."""
    if not isinstance(value, Mapping):
        return value
    for key, inner in value.items():
        if key == "arrayValue":
            return [_value(each) for each in mapping(inner).get("values") or ()]
        if key == "kvlistValue":
            pairs = mapping(inner).get("values") or ()
            return {text(mapping(each).get("key")): _value(mapping(each).get("value")) for each in pairs}
        return inner
    return None


def _first(said: Attributes, keys: Iterable[str]) -> str:
    return next((found for key in keys if (found := text(said.get(key)))), "")


def _count(said: Attributes, keys: Iterable[str]) -> int | None:
    return next((found for key in keys if (found := count(said.get(key))) is not None), None)


def _time(raw: Mapping[str, Any], key: str) -> float | None:
    found = number(raw.get(key))
    return found / 1e9 if found else None


def _failure(raw: Mapping[str, Any], said: Attributes) -> Failure | None:
    status = mapping(raw.get("status"))
    if status.get("code") not in _ERROR and not said.get("error.type"):
        return None
    events = [each for each in raw.get("events") or () if isinstance(each, Mapping)]
    thrown = next((_attributes(event) for event in events if event.get("name") == "exception"), {})
    code = _first(said, ("error.type",)) or text(thrown.get("exception.type")).rpartition(".")[2]
    told = text(status.get("message")) or text(thrown.get("exception.message"))
    return failure({"type": code, "message": told}) or Failure("error", "")


def _prompt(said: Attributes) -> list[Any]:
    told = _first(said, ("gen_ai.system_instructions",))
    found: list[Any] = [{"role": "system", "content": told}] if told else []
    for name in PROMPT:
        if name in said:
            return found + _json_list(said[name])
    return found + next(filter(None, (_numbered(said, prefix) for prefix in PROMPT_PREFIXES)), [])


def _answer(said: Attributes) -> Answer:
    why = finish_of(next((said[name] for name in FINISH if said.get(name)), None))
    for name in ANSWER:
        if name in said:
            return _of_first(_json_list(said[name]), why)
    output = mapping(_json(said.get("output.value"))).get("choices")
    if isinstance(output, list) and output:  # this form has refusals, which the numbered attributes lack
        return chat_answer(mapping(output[0]).get("message"), why)
    for prefix in ANSWER_PREFIXES:
        if listed := _numbered(said, prefix):
            return _of_first(listed, why)
    writes_text = said.get("gen_ai.operation.name") in WRITING
    is_empty = _count(said, OUTPUT) == 0 and why in ("", "stop") and writes_text
    return Answer(finish=why, is_empty=is_empty, is_refusal=why == "content_filter")


def _of_first(messages: list[Any], why: str) -> Answer:
    first = messages[0] if messages else None
    if isinstance(first, str):
        first = {"content": first}
    return chat_answer(first, why) if first is not None else Answer(finish=why)


def _json(value: object) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _json_list(value: object) -> list[Any]:
    found = _json(value)
    return found if isinstance(found, list) else [found] if found not in (None, "", {}) else []


def _numbered(said: Attributes, prefix: str) -> list[Any]:
    """Return the messages in attributes such as `gen_ai.prompt.0.role`."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in said.items():
        if key.startswith(prefix):
            position, _, name = key.removeprefix(prefix).partition(".")
            if position.isdigit() and len(position) < 7:
                found.setdefault(int(position), {})[name.removeprefix("message.")] = value
    return [_joined(found[position]) for position in sorted(found)]


def _joined(facts: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its tool calls in one list. Their attributes have numbers in their names."""
    calls = {key: value for key, value in facts.items() if key.startswith("tool_calls.")}
    texts = [facts[key] for key in sorted(facts) if key.startswith("contents.") and key.endswith(".text")]
    plain = {
        key: value for key, value in facts.items() if key not in calls and not key.startswith("contents.")
    }
    content = {"content": "\n".join(map(str, texts))} if texts and "content" not in plain else {}
    kept = [[key, value] for key, value in sorted(calls.items()) if not key.endswith(".id")]
    return plain | content | ({"tool_calls": kept} if kept else {})
