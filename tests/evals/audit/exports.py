"""Small exports in the shapes that the real SDKs write, made of the same description of a call."""

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]
START = 1_790_000_000.0
MODEL = "gpt-4o-mini"


@dataclass(frozen=True, kw_only=True)
class Made:
    """A model call, as its application saw it."""

    trace: str = "t1"
    id: str = "c1"
    parent: str = ""
    prompt: Sequence[Mapping[str, Any]] = ({"role": "user", "content": "How many?"},)
    answer: str | None = "It is 42."
    refusal: str | None = None
    finish: str = "stop"
    error: str = ""
    model: str = MODEL
    read: int | None = 1000
    written: int | None = 100
    cached: int = 400
    reasoning: int = 20
    at: float = 0.0
    """Seconds after START."""
    seconds: float | None = 1.0
    """`None` for a call that never ended."""
    step: str = "answer"
    tools: Sequence[Json] = field(default_factory=tuple)


def iso(at: float) -> str:
    return datetime.fromtimestamp(START + at, UTC).isoformat().replace("+00:00", "Z")


def langsmith(call: Made) -> Json:
    """Return the run of LangChain's chat model."""
    message = {
        "content": call.answer or "",
        "type": "ai",
        "additional_kwargs": {"refusal": call.refusal} if call.refusal else {},
        "response_metadata": {"finish_reason": call.finish},
        "tool_calls": list(call.tools),
        "id": f"lc_run--{call.id}",
    }
    kinds = {"user": "human", "assistant": "ai"}
    head = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages"]}
    asked = [
        head | {"kwargs": {"content": each.get("content"), "type": kinds.get(each["role"], each["role"])}}
        for each in call.prompt
    ]
    about = {"ls_provider": "openai", "ls_model_name": call.model, "langgraph_node": call.step}
    generated = [[{"text": call.answer or "", "message": {"lc": 1, "kwargs": message}}]]
    ended = None if call.seconds is None else iso(call.at + call.seconds)
    return {
        "id": call.id,
        "trace_id": call.trace,
        "parent_run_id": call.parent or None,
        "name": "ChatOpenAI",
        "run_type": "llm",
        "start_time": iso(call.at),
        "end_time": ended,
        "status": "pending" if ended is None else "error" if call.error else "success",
        "error": call.error or None,
        "inputs": {"messages": [asked]},
        "outputs": None if call.error or ended is None else {"generations": generated},
        "extra": {"metadata": about},
        "prompt_tokens": call.read,
        "completion_tokens": call.written,
        "prompt_token_details": {"cache_read": call.cached},
        "completion_token_details": {"reasoning": call.reasoning},
    }


def langsmith_step(**changes: Any) -> Json:
    return {
        "id": "root",
        "trace_id": "t1",
        "parent_run_id": None,
        "name": "pipeline",
        "run_type": "chain",
        "start_time": iso(0),
        "end_time": iso(5),
        "status": "success",
        "error": None,
        "inputs": {"messages": [["user", "How many?"]]},
        "outputs": {},
        "extra": {"metadata": {}},
    } | changes


def otlp(call: Made, attributes: Mapping[str, Any], events: Sequence[Json] = ()) -> Json:
    """Return a span of OTLP in JSON, as the collector's file exporter writes it."""
    thrown = {"exception.type": f"openai.{call.error}", "exception.message": f"{call.error} happened"}
    exception = [{"name": "exception", "attributes": pairs(thrown)}] if call.error else []
    end = 0 if call.seconds is None else int((START + call.at + call.seconds) * 1e9)
    return {
        "traceId": call.trace,
        "spanId": call.id,
        "parentSpanId": call.parent,
        "name": f"chat {call.model}",
        "kind": 3,
        "startTimeUnixNano": str(int((START + call.at) * 1e9)),
        "endTimeUnixNano": str(end),
        "attributes": pairs(attributes | ({"error.type": call.error} if call.error else {})),
        "status": {"code": 2, "message": f"{call.error} happened"} if call.error else {},
        "events": [*events, *exception],
    }


def resource(*spans: Json) -> Json:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


def pairs(attributes: Mapping[str, Any]) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items() if value is not None]


def _value(value: Any) -> Json:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value}


def current(call: Made) -> Json:
    """Return a span with the current names of the GenAI conventions."""
    parts: list[Json] = [{"type": "text", "content": call.answer}] if call.answer else []
    parts += [{"type": "refusal", "content": call.refusal}] if call.refusal else []
    parts += [{"type": "tool_call", "name": "look"} for _ in call.tools]
    asked = [{"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]} for m in call.prompt]
    said = [{"role": "assistant", "parts": parts, "finish_reason": call.finish}]
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": call.model,
        "gen_ai.agent.name": call.step,
        "gen_ai.input.messages": json.dumps(asked),
        "gen_ai.usage.input_tokens": call.read,
        "gen_ai.usage.output_tokens": call.written,
        "gen_ai.usage.cache_read.input_tokens": call.cached,
        "gen_ai.usage.reasoning.output_tokens": call.reasoning,
    }
    done = {"gen_ai.response.finish_reasons": [call.finish], "gen_ai.output.messages": json.dumps(said)}
    return otlp(call, told if call.error else told | done)


def openllmetry(call: Made) -> Json:
    """Return a span with the older names of OpenLLMetry."""
    told: Json = {
        "llm.request.type": "chat",
        "gen_ai.system": "OpenAI",
        "gen_ai.request.model": call.model,
        "traceloop.entity.name": call.step,
        "gen_ai.usage.prompt_tokens": call.read,
        "gen_ai.usage.completion_tokens": call.written,
        "gen_ai.usage.cache_read_input_tokens": call.cached,
        "gen_ai.usage.reasoning_tokens": call.reasoning,
        "gen_ai.completion.0.finish_reason": call.finish,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": call.answer,
        "gen_ai.completion.0.refusal": call.refusal,
    }
    for number, message in enumerate(call.prompt):
        told |= {f"gen_ai.prompt.{number}.{key}": value for key, value in message.items()}
    return otlp(call, told)


def openinference(call: Made) -> Json:
    """Return a span with the names of OpenInference."""
    message = {"content": call.answer, "refusal": call.refusal, "role": "assistant"}
    told: Json = {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.invocation_parameters": json.dumps({"model": call.model}),
        "graph.node.name": call.step,
        "llm.token_count.prompt": call.read,
        "llm.token_count.completion": call.written,
        "llm.token_count.prompt_details.cache_read": call.cached,
        "llm.token_count.completion_details.reasoning": call.reasoning,
        "llm.finish_reason": call.finish,
        "output.value": json.dumps({"choices": [{"message": message}]}),
    }
    for number, each in enumerate(call.prompt):
        told |= {f"llm.input_messages.{number}.message.{key}": value for key, value in each.items()}
    return otlp(call, told)


def chat_body(call: Made) -> Json:
    """Return a chat completion of OpenAI."""
    message = {"role": "assistant", "content": call.answer, "refusal": call.refusal}
    return {
        "id": f"chatcmpl-{call.id}",
        "object": "chat.completion",
        "created": int(START + call.at),
        "model": call.model,
        "choices": [{"index": 0, "finish_reason": call.finish, "message": message}],
        "usage": {
            "prompt_tokens": call.read,
            "completion_tokens": call.written,
            "total_tokens": (call.read or 0) + (call.written or 0),
            "prompt_tokens_details": {"cached_tokens": call.cached},
            "completion_tokens_details": {"reasoning_tokens": call.reasoning},
        },
    }


def response_body(call: Made) -> Json:
    """Return an object of the Responses API."""
    kind = "refusal" if call.refusal else "output_text"
    parts = [{"type": kind, kind.removeprefix("output_"): call.refusal or call.answer}]
    return {
        "id": f"resp_{call.id}",
        "object": "response",
        "created_at": START + call.at,
        "completed_at": START + call.at + (call.seconds or 0),
        "status": "incomplete" if call.finish == "length" else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if call.finish == "length" else None,
        "model": call.model,
        "output": [{"id": "msg", "type": "message", "role": "assistant", "content": parts}],
        "usage": {
            "input_tokens": call.read,
            "input_tokens_details": {"cached_tokens": call.cached},
            "output_tokens": call.written,
            "output_tokens_details": {"reasoning_tokens": call.reasoning},
            "total_tokens": (call.read or 0) + (call.written or 0),
        },
    }


def pair(call: Made) -> Json:
    """Return a request and its response, as applications log them."""
    facts = {"trace_id": call.trace, "step": call.step, "started_at": START + call.at}
    asked = {"model": call.model, "messages": list(call.prompt)}
    if call.error:
        error = {"message": f"{call.error} happened", "type": call.error, "code": None}
        return {"request": asked, "error": error, "status_code": 500, **facts}
    lasted = {} if call.seconds is None else {"latency_ms": call.seconds * 1000}
    return {"id": call.id, "request": asked, "response": chat_body(call), **facts, **lasted}


def responses_pair(call: Made) -> Json:
    asked = {"model": call.model, "input": list(call.prompt)}
    return {"request": asked, "response": response_body(call), "trace_id": call.trace, "step": call.step}


def lines(path: Path, rows: Iterable[Json | str]) -> Path:
    """Write rows as JSON lines; a text is written as it is. A name that ends in .gz is compressed."""
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path
