"""Responses of Agent Framework's agents and chat clients as the answers of workers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from agent_framework import AgentResponse, ChatResponse, Content, Message

from autogen_podium.agent_framework.messages import read_usage
from podium.errors import WorkerBroken, WorkerFailed
from podium.hosts import read_completion, tool_call
from podium.types import Completion, Part, storable
from podium.workers import Request

AnyAgentResponse = AgentResponse[Any]
Response = AnyAgentResponse | ChatResponse[Any]
_OPENAI: Final = ("RawOpenAIChatCompletionClient", "RawOpenAIChatClient")
"""Classes of Agent Framework's clients of OpenAI's SDK, which need not be installed."""
_REFUSED: Final = ("model_output_kind", "refusal")
_MAX_QUOTE: Final = 300


def is_openai(client: object) -> bool:
    """Return whether a chat client is Agent Framework's of OpenAI's SDK."""
    return any(kind.__name__ in _OPENAI for kind in type(client).__mro__)


def read_response(
    request: Request, response: object, sent: str, *, worker: str, client: object
) -> Completion:
    """Return the answer in a response, by the rules that hold for every chat model.

    An answer of OpenAI's clients without a finish reason was cut. Other clients need not state one.

    Args:
        request: what the worker was asked.
        response: what the agent or the chat client returned.
        sent: the text that was streamed; empty where none was.
        worker: the worker's name.
        client: the chat client that was asked, or the agent's; `None` where it is not known.

    Returns:
        The completion; `missing` names the tools of an agent whose last call failed.

    Raises:
        WorkerFailed: the agent asks for approval.
        WorkerBroken: it is no response, or as `read_completion`.
        AnswerRefused: the model or its provider's filter refused to answer.
    """
    if not isinstance(response, AgentResponse | ChatResponse):
        raise WorkerBroken(f"worker {worker!r} returned no response", maybe_paid=True)
    if isinstance(response, AgentResponse) and response.user_input_requests:
        waits = f"worker {worker!r} asks for approval, which a step cannot wait for"
        raise WorkerFailed(f"{waits}: give it tools that need none", maybe_paid=True)
    last = next((m for m in reversed(response.messages) if m.role == "assistant" and m.text.strip()), None)
    finish = response.finish_reason
    if finish is None and not (is_openai(client) and not request.sampling.stop):
        finish = "stop"
    completion = read_completion(
        request.messages,
        text=sent or ("" if last is None else last.text),
        finish_reason="stop" if finish == "tool_calls" else finish,
        tool_calls=_open_calls(response.messages),
        refusal=_refusal(response.messages),
        usage=read_usage(response.usage_details),
        model=getattr(response, "model", None),
    )
    failed = failed_tools(response.messages)
    return replace(completion, missing=failed) if failed else completion


def _refusal(messages: Sequence[Message]) -> str | None:
    """Return the text in which the model refused, which OpenAI's clients mark; `None` where it did not."""
    marked = (c.text or "" for c in _contents(messages[-1:]) if _mark(c) == _REFUSED[1])
    return storable("".join(marked)) or None


def _mark(content: Content) -> object:
    properties = content.additional_properties or {}
    inner = properties.get("core")
    return inner.get(_REFUSED[0]) if isinstance(inner, dict) else properties.get(_REFUSED[0])


def _open_calls(messages: Sequence[Message]) -> list[Part]:
    """Return the calls of tools in the last message, which nobody has made."""
    calls = [content for content in _contents(messages[-1:]) if content.type == "function_call"]
    return [tool_call(call.call_id, call.name, call.arguments) for call in calls]


def failed_tools(messages: Sequence[Message]) -> str:
    """Return the tools of an agent whose last call failed, in words; empty where there are none.

    Args:
        messages: what the agent's response holds: the calls of its tools, and what these returned.
    """
    names, faults = dict[str | None, str](), dict[str, str]()
    for content in _contents(messages):
        if content.type == "function_call":
            names[content.call_id] = str(content.name)
        elif content.type == "function_result":
            name = names.get(content.call_id, "?")
            faults.pop(name, None)
            if content.exception is not None:
                faults[name] = storable(str(content.exception) or str(content.result))[:_MAX_QUOTE]
    return "; ".join(f"its tool {name!r} failed: {why}" for name, why in faults.items())


def _contents(messages: Sequence[Message]) -> Iterator[Content]:
    return (content for message in messages for content in message.contents)
