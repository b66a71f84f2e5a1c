"""Checks a model with LiteLLM. Arguments: URL of the server, name of the model."""

import json
import sys
from typing import Any

import litellm

HELLO = "Hello to you, too."
ASKED = [{"role": "user", "content": "Hello"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


def check(name: str, url: str) -> None:
    """Check answers, streams and tool calls of a model."""
    known: dict[str, Any] = {
        "model": name,
        "api_base": url,
        "api_key": "none",
        "num_retries": 0,
        "timeout": 20,
    }
    answer = litellm.completion(messages=ASKED, **known)
    assert answer.choices[0].message.content == HELLO, answer
    assert answer.usage.total_tokens > 0, answer
    stream = litellm.completion(messages=ASKED, stream=True, **known)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == HELLO
    messages: list[Any] = [{"role": "user", "content": "What is the weather in 'Paris'?"}]
    told = litellm.completion(messages=messages, tools=[TOOL], **known).choices[0].message
    assert told.tool_calls
    while told.tool_calls:  # of each step
        (call,) = told.tool_calls
        assert json.loads(call.function.arguments) == {"city": "Paris"}, told
        messages += [told, {"role": "tool", "tool_call_id": call.id, "content": "sun in Paris"}]
        told = litellm.completion(messages=messages, tools=[TOOL], **known).choices[0].message
    assert told.content == "The tools say sun in Paris.", told


root, model = sys.argv[1:]
check(f"openai/{model}", f"{root}/v1")
check(f"anthropic/{model}", root)
response = litellm.responses(
    model=f"openai/{model}", input="Hello", api_base=f"{root}/v1", api_key="none", num_retries=0
)
assert response.output[-1].content[0].text == HELLO, response
try:
    litellm.completion(model="openai/unknown", messages=ASKED, api_base=f"{root}/v1", api_key="none")
except litellm.NotFoundError as error:
    assert "unknown" in str(error)  # noqa: PT017 - pytest is not in this process
else:
    raise AssertionError("an unknown model answers")
