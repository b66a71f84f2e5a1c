"""Reads logs of OpenAI's API: pairs of request and response, batch files, stored completions and responses.

Such logs do not say which calls belong to one query. Calls belong together if they share the id of a trace,
thread, conversation or session, or if one continues the response of another. Any other call is a separate
query.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from podium.workers.openai.chat_response import read_usage
from podium_evals.audit.answers import Answer, chat_answer, responses_answer
from podium_evals.audit.failures import failure
from podium_evals.audit.formats.values import first_count, first_text, mapping, moment, number, text, tier_of
from podium_evals.audit.span import Span
from podium_evals.audit.texts import digest, digests, question_of

_OBJECTS = ("chat.completion", "text_completion", "response")
_TRACES = ("trace_id", "query_id", "run_id", "thread_id", "conversation_id", "session_id")
_STARTS = ("started_at", "start_time", "startTime", "timestamp", "time", "created_at")
_ENDS = ("ended_at", "end_time", "endTime", "completed_at")
_DURATIONS = (("latency_s", 1.0), ("duration_s", 1.0), ("latency_ms", 1e-3), ("duration_ms", 1e-3))
_STEPS = ("step", "step_name", "name", "agent")


def recognises(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a request, a response, or both."""
    if row.get("object") in _OBJECTS or "custom_id" in row:
        return True
    asked = row.get("request")
    return (
        isinstance(asked, Mapping)
        and ("response" in row or "error" in row)
        and _is_request(mapping(asked.get("body") or asked))
    )


def spans(row: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the span of a row.

    Raises:
        ValueError: the row has neither a request nor a response.
    """
    if "custom_id" in row:
        yield _batch(row)
    elif row.get("object") in _OBJECTS:
        yield _span(row, request=row, response=row, status=None)
    else:
        request, response = mapping(row.get("request")), mapping(row.get("response"))
        status = response.get("status_code", row.get("status_code"))
        body = response.get("body", response)
        yield _span(
            row, request=mapping(request.get("body") or request), response=mapping(body), status=status
        )


def _is_request(asked: Mapping[str, Any]) -> bool:
    return any(key in asked for key in ("messages", "input", "prompt"))


def _batch(row: Mapping[str, Any]) -> Span:
    """Return the span of a line of a batch's input or output. Both lines of a call share a `custom_id`."""
    called = str(row["custom_id"])
    if not called:
        raise ValueError("the custom_id is empty")
    answered = mapping(row.get("response"))
    facts = {"id": called, "trace_id": f"batch {called}", "service_tier": "batch", "is_local_id": True}
    given = mapping(row.get("body"))
    if not given and not answered and not row.get("error"):
        raise ValueError("the line has neither a body nor a response nor an error")
    told = facts | {key: row[key] for key in ("error",) if row.get(key)}
    return _span(
        told, request=given, response=mapping(answered.get("body")), status=answered.get("status_code")
    )


def _span(
    row: Mapping[str, Any], *, request: Mapping[str, Any], response: Mapping[str, Any], status: object
) -> Span:
    about = (
        mapping(request.get("metadata")) | mapping(response.get("metadata")) | mapping(row.get("metadata"))
    )
    failed = failure(row.get("error") or response.get("error"), status)
    if failed is None and response.get("status") in ("failed", "cancelled"):
        failed = failure({"code": response["status"]})
    messages = _messages(request)
    called = text(row.get("id")) or text(response.get("id")) or text(row.get("request_id")) or digest(row)
    continues = text(request.get("previous_response_id")) or text(response.get("previous_response_id"))
    started, ended = _times(row, response)
    usage = read_usage(response.get("usage"))
    details = mapping(mapping(response.get("usage")).get("prompt_tokens_details"))
    return Span(
        trace=_trace(row, request, response, about) or called,
        id=called,
        continues=continues,
        is_local_id=bool(row.get("is_local_id")),
        name=first_text(row, *_STEPS),
        kind="call",
        step=first_text(row, *_STEPS) or first_text(about, *_STEPS),
        started=started,
        ended=ended,
        is_open=not failed
        and not (response.get("choices") or response.get("output") or response.get("data")),
        model=text(response.get("model")) or text(request.get("model")),
        provider=first_text(row, "provider"),
        base_url=first_text(row, "base_url"),
        tier=tier_of(row.get("service_tier") or response.get("service_tier")),
        usage=usage,
        cache_writes=first_count(details, "cache_write_tokens") or 0,
        cost=number(mapping(response.get("usage")).get("cost")) or number(row.get("cost")),
        error=failed.code if failed else "",
        error_text=failed.text if failed else "",
        prompt=digests(messages),
        question=question_of(messages),
        **(Answer() if failed else _answer(response))._asdict(),
    )


def _trace(*places: Mapping[str, Any]) -> str:
    """Return the id of the query. It is in the row, the request, the response, or their metadata."""
    for place in places:
        conversation = place.get("conversation")
        told = conversation if isinstance(conversation, str) else text(mapping(conversation).get("id"))
        if found := first_text(place, *_TRACES) or told:
            return found
    return ""


def _messages(request: Mapping[str, Any]) -> list[Any]:
    """Return the messages of a prompt. Tools and instructions count as the first messages."""
    asked = request.get("messages", request.get("input", request.get("prompt")))
    told = request.get("instructions")
    found: list[Any] = [{"role": "system", "content": told}] if told else []
    if isinstance(asked, str):
        return [*found, {"role": "user", "content": asked}]
    return [*found, *asked] if isinstance(asked, list) else []


def _times(row: Mapping[str, Any], response: Mapping[str, Any]) -> tuple[float | None, float | None]:
    made = moment(response.get("created", response.get("created_at")))
    started = next((at for key in _STARTS if (at := moment(row.get(key))) is not None), made)
    ended = next((at for key in _ENDS if (at := moment(row.get(key))) is not None), None)
    if ended is None and row is not response:
        ended = moment(response.get("completed_at"))
    for name, unit in _DURATIONS:
        lasted = number(row.get(name))
        if ended is None and started is not None and lasted is not None:
            ended = started + lasted * unit
    return started, ended


def _answer(response: Mapping[str, Any]) -> Answer:
    choices = response.get("choices")
    if isinstance(choices, list) and choices:
        first = mapping(choices[0])
        return chat_answer(first.get("message") or {"content": first.get("text")}, first.get("finish_reason"))
    return responses_answer(response) if isinstance(response.get("output"), list) else Answer()
