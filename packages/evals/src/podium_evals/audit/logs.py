"""Reads rows of exports as spans: runs of LangSmith, logs of OpenAI's API, and runs of a Podium journal.

Logs of OpenAI's API do not say which calls belong to one query. Calls belong together if they share the id of
a trace, thread, conversation or session, or if one continues the response of another. Any other call is a
separate query.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from podium.journal import Entry, Journal, RunRow
from podium.run_state import RunState, fold
from podium.run_state.round_state import CallState
from podium.run_state.state import UNFINISHED
from podium.types import Event, Outcome, RunStarted, RunStopped, StepEnded
from podium.workers.openai.chat_response import read_usage
from podium_evals.audit.otlp import is_otlp, otlp_span
from podium_evals.audit.queries import Kind, Span
from podium_evals.audit.texts import (
    Answer,
    chat_answer,
    digest,
    digests,
    excerpt,
    failure,
    finish_of,
    first_count,
    first_text,
    mapping,
    moment,
    number,
    question_of,
    responses_answer,
    text,
    tier_of,
    unwrapped,
    usage_of,
)

_KINDS: Mapping[str, Kind] = {"llm": "call", "embedding": "call", "tool": "tool"}


def is_langsmith(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a run."""
    return "run_type" in row and "id" in row


def langsmith_span(row: Mapping[str, Any]) -> Span:
    """Return the span of a run."""
    run_id = str(row["id"] or "")
    if not run_id:
        raise ValueError("the run has no id")
    if row.get("child_runs"):
        raise ValueError("the run has runs inside it (child_runs): export each run as a row of its own")
    extra = mapping(row.get("extra"))
    metadata, asked = mapping(extra.get("metadata")), mapping(extra.get("invocation_params"))
    inputs, outputs = mapping(row.get("inputs")), mapping(row.get("outputs"))
    kind = _KINDS.get(text(row.get("run_type")), "step")
    failed = failure(row.get("error") or (row.get("status") == "error" and "error"))
    ended = moment(row.get("end_time"))
    messages = _run_messages(inputs)
    answer = Answer() if kind != "call" or failed or not outputs else _run_answer(outputs)
    usage = _usage(row, metadata, outputs) if kind == "call" else None
    details = mapping(row.get("prompt_token_details")) or mapping(
        mapping(metadata.get("usage_metadata")).get("input_token_details")
    )
    return Span(
        trace=str(row.get("trace_id") or run_id),
        id=run_id,
        parent=str(row.get("parent_run_id") or ""),
        name=text(row.get("name")),
        kind="agent" if kind == "step" and metadata.get("ls_agent_type") == "root" else kind,
        step=first_text(metadata, "langgraph_node"),
        started=moment(row.get("start_time")),
        ended=ended,
        is_open=ended is None and row.get("status") in (None, "", "pending"),
        model=first_text(metadata, "ls_model_name")
        or first_text(asked, "model", "model_name")
        or first_text(outputs, "model"),
        provider=first_text(metadata, "ls_provider"),
        base_url=first_text(asked, "base_url", "openai_api_base"),
        usage=usage,
        cache_writes=first_count(details, "cache_creation") or 0,
        cost=number(row.get("total_cost")) if usage is not None else None,
        error=failed.code if failed else "",
        error_text=failed.text if failed else "",
        prompt=digests(messages) if kind == "call" else "",
        question=question_of(messages),
        **answer._asdict(),
    )


def _run_messages(inputs: Mapping[str, Any]) -> Sequence[Any]:
    """Return the messages of a prompt in the form of LangChain, of OpenAI's two APIs, or of plain texts."""
    found = inputs.get("messages")
    if isinstance(found, list) and found:
        nested = isinstance(found[0], list) and not all(isinstance(each, str) for each in found[0])
        return list(found[0]) if nested else found
    asked = inputs.get("input", inputs.get("prompts", inputs.get("prompt", inputs.get("question"))))
    told = [{"role": "system", "content": inputs["instructions"]}] if inputs.get("instructions") else []
    if isinstance(asked, str):
        return [*told, {"role": "user", "content": asked}]
    return [*told, *asked] if isinstance(asked, list) else told


def _run_answer(outputs: Mapping[str, Any]) -> Answer:
    if outputs.get("object") == "response" or isinstance(outputs.get("output"), list):
        return responses_answer(outputs)
    generated: Any = outputs.get("generations")
    while isinstance(generated, list) and generated:
        generated = generated[0]
    if isinstance(generated, Mapping):
        message = mapping(unwrapped(generated.get("message") or {"content": generated.get("text")}))
        told = mapping(message.get("response_metadata")) | mapping(generated.get("generation_info"))
        why = finish_of(first_text(told, "finish_reason", "stop_reason", "done_reason"))
        said = mapping(message.get("additional_kwargs")) | message
        return chat_answer(said, why)
    choices = outputs.get("choices")
    if isinstance(choices, list) and choices:
        choice = mapping(choices[0])
        return chat_answer(
            choice.get("message") or {"content": choice.get("text")}, choice.get("finish_reason")
        )
    if isinstance(outputs.get("message"), Mapping) or "content" in outputs:
        return chat_answer(outputs.get("message") or outputs, outputs.get("stop_reason"))
    return Answer()


def _usage(row: Mapping[str, Any], metadata: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    counted = {
        "input_tokens": row.get("prompt_tokens"),
        "output_tokens": row.get("completion_tokens"),
        "input_token_details": row.get("prompt_token_details"),
        "output_token_details": row.get("completion_token_details"),
    }
    generated: Any = outputs.get("generations")
    while isinstance(generated, list) and generated:
        generated = generated[0]
    message = mapping(unwrapped(mapping(generated).get("message")))
    reports = (
        counted,
        metadata.get("usage_metadata"),
        outputs.get("usage_metadata"),
        message.get("usage_metadata"),
    )
    for told in map(mapping, reports):
        read, written = first_count(told, "input_tokens"), first_count(told, "output_tokens")
        if read or written:
            cached = first_count(mapping(told.get("input_token_details")), "cache_read")
            reasoning = first_count(mapping(told.get("output_token_details")), "reasoning")
            return usage_of(read, written, cached, reasoning)
    return read_usage(outputs.get("usage") or mapping(outputs.get("llm_output")).get("token_usage"))


_OBJECTS = ("chat.completion", "text_completion", "response")
_TRACES = ("trace_id", "query_id", "run_id", "thread_id", "conversation_id", "session_id")
_DURATIONS = {"latency_s": 1.0, "latency_ms": 1e-3}
_STEPS = ("step", "name", "agent")
_ASKED = ("messages", "input", "prompt")


def is_openai(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a request, a response, or both."""
    if row.get("object") in _OBJECTS:
        return True
    asked = mapping(row.get("request"))
    asked = mapping(asked.get("body") or asked)
    return ("response" in row or "error" in row) and not asked.keys().isdisjoint(_ASKED)


def openai_span(row: Mapping[str, Any]) -> Span:
    """Return the span of a row."""
    if row.get("object") in _OBJECTS:
        return _span(row, request=row, response=row, status=None)
    request, response = mapping(row.get("request")), mapping(row.get("response"))
    return _span(
        row,
        request=mapping(request.get("body") or request),
        response=mapping(response.get("body", response)),
        status=response.get("status_code", row.get("status_code")),
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
    given = moment(row.get("started_at"))
    started = made if given is None else given
    ended = next((at for of in (row, response) if (at := moment(of.get("completed_at"))) is not None), None)
    for name, unit in _DURATIONS.items():
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


_REFUSED = ("answer_refused",)


async def run_spans(journal: Journal) -> AsyncIterator[Span]:
    """Yield the spans of all runs of a journal; a nested run is part of the query of its outer run."""
    async with journal:
        rows = {row.run_id: row for row in await journal.runs(limit=None, nested=True)}
        parents = {run_id: row.parent for run_id, row in rows.items()}
        for run_id, row in rows.items():
            entries = await journal.read(run_id)
            for span in _journal_spans(row, _outermost(run_id, parents), entries):
                yield span


def _outermost(run_id: str, parents: dict[str, str | None]) -> str:
    seen = set[str]()
    while (parent := parents.get(run_id)) is not None and run_id not in seen:
        seen.add(run_id)
        run_id = parent
    return run_id


def _journal_spans(row: RunRow, trace: str, entries: Sequence[Entry]) -> Iterator[Span]:
    events = [entry.event for entry in entries]
    started = events[0]
    assert isinstance(started, RunStarted)
    # If a crash cut off the call of a planner, a stop ends this call.
    state = fold([*events, RunStopped(run_id=row.run_id, at=events[-1].at, problem=UNFINISHED)])
    asked = excerpt(started.query[-1].text) if started.query else ""
    yield Span(
        trace=trace,
        id=row.run_id,
        parent="" if started.parent is None else started.parent[0],
        name="run",
        kind="agent",
        started=row.began,
        ended=row.began + state.at,  # without interruptions
        question=asked,
    )
    whole = Span(trace=trace, id=row.run_id, parent=row.run_id, kind="call", question=asked)
    yield from _planning(whole, row, state)
    yield from _steps(whole, row, state, events)


def _planning(whole: Span, row: RunRow, state: RunState) -> Iterator[Span]:
    planned = [event for current in state.rounds.values() for event in current.planned]
    for place, event in enumerate(planned):
        done = event.proposal
        if not done.asked:
            continue
        failed = done.problem if done.problem is not None and not done.text else None
        yield replace(
            whole,
            id=f"{row.run_id}/planner/{place}",
            name="planner",
            step=f"planner ({done.role})",
            kind="call" if done.usage.total_tokens or done.cost != 0 or failed else "step",
            model=done.planner,
            started=row.began + event.at - done.seconds,
            ended=row.began + event.at,
            is_open=failed is not None and failed.code == "unknown",
            usage=done.usage if done.usage.total_tokens else None,
            cost=done.cost,
            error=failed.code if failed else "",
            error_text=excerpt(failed.message, 200) if failed else "",
        )


def _steps(whole: Span, row: RunRow, state: RunState, events: Sequence[Event]) -> Iterator[Span]:
    ends = {id(event.outcome): event for event in events if isinstance(event, StepEnded)}
    for place, called in enumerate(state.calls):
        start, bill = called.start, called.bill
        failed, end = bill.problem, called.failed or ends.get(id(called.ended))
        is_model = not called.nests and (bill.usage.total_tokens or bill.cost != 0 or failed)
        yield replace(
            whole,
            id=f"{row.run_id}/call/{place}",
            name=bill.worker,
            step=bill.worker,
            kind="call" if is_model else "tool",
            model=bill.worker,
            started=row.began + start.at,
            ended=None if end is None else row.began + end.at,
            is_open=failed is not None and failed.code == "unknown",
            usage=bill.usage if is_model and bill.usage.total_tokens else None,
            cost=bill.cost,
            error=failed.code if failed else "",
            error_text=excerpt(failed.message, 200) if failed else "",
            prompt=digest([(isinstance(end, StepEnded) and end.key) or start.subtask, bill.worker]),
            **_step_answer(called)._asdict(),
        )


def _step_answer(called: CallState) -> Answer:
    outcome: Outcome | None = called.ended
    if outcome is None or called.bill.problem is not None:
        code = called.bill.problem.code if called.bill.problem else ""
        return Answer(is_refusal=code in _REFUSED)
    is_empty = not outcome.text.strip() and not outcome.tool_calls and outcome.status == "ok"
    return Answer(digest(outcome.text), outcome.finish_reason or "", is_empty)


def span_of(row: Mapping[str, Any]) -> tuple[str, Span]:
    """Return the format of a row, and its span."""
    if is_langsmith(row):
        return "langsmith", langsmith_span(row)
    if is_otlp(row):
        return "otlp", otlp_span(row)
    if is_openai(row):
        return "openai", openai_span(row)
    keys = ", ".join(list(map(repr, row))[:5])
    raise ValueError(f"no run, span, request or response; it has {keys or 'no fields'}")
