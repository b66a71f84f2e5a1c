"""Reads runs of LangSmith, in the form that `Client.list_runs` and the API return."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podium.workers.openai.chat_response import read_usage
from podium_evals.audit.answers import Answer, chat_answer, finish_of, responses_answer
from podium_evals.audit.failures import failure
from podium_evals.audit.formats.values import first_count, first_text, mapping, moment, number, text, usage_of
from podium_evals.audit.span import Kind, Span
from podium_evals.audit.texts import digests, question_of, unwrapped

_KINDS: Mapping[str, Kind] = {"llm": "call", "embedding": "call", "tool": "tool"}
_DEEPEST = 100


def recognises(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a run."""
    return "run_type" in row and "id" in row


def spans(row: Mapping[str, Any], depth: int = 0) -> Iterator[Span]:
    """Yield the spans of a run and of the runs inside it.

    Raises:
        ValueError: the run has no id.
    """
    run_id = str(row["id"] or "")
    if not run_id:
        raise ValueError("the run has no id")
    outer = {"trace_id": row.get("trace_id") or run_id, "parent_run_id": run_id}
    inner = [each for each in row.get("child_runs") or () if isinstance(each, Mapping)]
    yield _span(row, run_id)
    if depth < _DEEPEST:
        for each in inner:
            known = {key: value for key, value in each.items() if value or key not in outer}
            yield from spans(outer | known, depth + 1)


def _span(row: Mapping[str, Any], run_id: str) -> Span:
    extra = mapping(row.get("extra"))
    metadata, asked = mapping(extra.get("metadata")), mapping(extra.get("invocation_params"))
    inputs, outputs = mapping(row.get("inputs")), mapping(row.get("outputs"))
    kind = _KINDS.get(text(row.get("run_type")), "step")
    failed = failure(row.get("error") or (row.get("status") == "error" and "error"))
    ended = moment(row.get("end_time"))
    messages = _messages(inputs)
    answer = Answer() if kind != "call" or failed or not outputs else _answer(outputs)
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


def _messages(inputs: Mapping[str, Any]) -> Sequence[Any]:
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


def _answer(outputs: Mapping[str, Any]) -> Answer:
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
