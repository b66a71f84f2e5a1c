"""Convert responses of Agent Framework's agents and chat clients to answers of workers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from agent_framework import AgentResponse, ChatResponse, Content, Message

from autogen_podium.agent_framework.messages import read_usage
from podium.errors import WorkerBroken, WorkerFailed
from podium.hosts import read_completion, tool_call
from podium.types import Completion, Part
from podium.types.messages import storable
from podium.workers import Request

AnyAgentResponse = AgentResponse[Any]
Response = AnyAgentResponse | ChatResponse[Any]
_OPENAI: Final = ("RawOpenAIChatCompletionClient", "RawOpenAIChatClient")
"""Agent Framework's client classes for OpenAI's SDK, which may not be installed."""
_REFUSED: Final = ("model_output_kind", "refusal")
_MAX_QUOTE: Final = 300


def is_openai(client: object) -> bool:
    """Return whether a chat client is one of Agent Framework's clients for OpenAI's SDK."""
    return any(kind.__name__ in _OPENAI for kind in type(client).__mro__)


def read_response(
    request: Request, response: object, sent: str, *, worker: str, client: object
) -> Completion:
    """Return the answer in a response, by the same rules as for every chat model.

    An answer of OpenAI's clients without a finish reason was cut. Other clients may leave out the finish
    reason.

    Args:
        request: the worker's request.
        response: the return value of the agent or the chat client.
        sent: the streamed text; empty without streaming.
        worker: the worker's name.
        client: the chat client, or the agent's; `None` if unknown.

    Returns:
        The completion; `missing` names the tools of an agent whose last call failed.

    Raises:
        WorkerFailed: the agent asks for approval.
        WorkerBroken: the response is invalid, or as `read_completion`.
        AnswerRefused: the model or its provider's filter refused to answer.
    """
    if not isinstance(response, AgentResponse | ChatResponse):
        raise WorkerBroken(f"worker {worker!r} returned no response", maybe_paid=True)
    if isinstance(response, AgentResponse) and response.user_input_requests:
        waits = f"worker {worker!r} asks for approval, but a step cannot wait"
        raise WorkerFailed(f"{waits}: give it tools that need no approval", maybe_paid=True)
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
    """Return the text of a refusal, which OpenAI's clients mark; `None` if the model did not refuse."""
    marked = (c.text or "" for c in _contents(messages[-1:]) if _mark(c) == _REFUSED[1])
    return storable("".join(marked)) or None


def _mark(content: Content) -> object:
    properties = content.additional_properties or {}
    inner = properties.get("core")
    return inner.get(_REFUSED[0]) if isinstance(inner, dict) else properties.get(_REFUSED[0])


def _open_calls(messages: Sequence[Message]) -> list[Part]:
    """Return the tool calls in the last message, which have not been made."""
    calls = [content for content in _contents(messages[-1:]) if content.type == "function_call"]
    return [tool_call(call.call_id, call.name, call.arguments) for call in calls]


def failed_tools(messages: Sequence[Message]) -> str:
    """Return a text that names the tools of an agent whose last call failed; empty if there are none.

    Args:
        messages: the messages of the agent's response: the tool calls and their results.
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
