"""Each feature of `docs/server.md`, tried with the SDKs of OpenAI and Anthropic for Python.

A feature is a row: its name, and a request with what must be in its answer.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel
from server.scene import CONFIG
from servers.capable import capable, is_planning
from servers.chat_server import USAGE, Call, ChatServer, Reply, whole
from servers.podium_server import Served, serving

pytestmark = pytest.mark.long

HELLO = "Hello to you, too."
PARIS = "The tools say sun in Paris."
SAY: Any = [{"role": "user", "content": "Say hello."}]
ASK: Any = [{"role": "user", "content": "What is the weather in 'Paris'?"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
PDF = base64.b64encode(b"%PDF-1.4").decode()
IMAGE = f"data:image/png;base64,{PIXEL}"
PAPER = f"data:application/pdf;base64,{PDF}"
MODELS = '[models.team]\n[models.raw]\nworker = "one"\n'
LIKELY = {"content": [{"token": "Hello", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}


class City(BaseModel):
    """An answer in a form."""

    city: str


def reply(call: Call) -> Reply:
    """Reply as a capable model that also has several choices and log probabilities."""
    if is_planning(call) or not (call.body.get("n") or call.body.get("logprobs")):
        return capable(call)
    message = {"role": "assistant", "content": HELLO}
    choices = [
        {"index": each, "message": message, "finish_reason": "stop", "logprobs": LIKELY}
        for each in range(call.body.get("n") or 1)
    ]
    return whole({"choices": choices, "usage": USAGE})


class Sdks:
    """The clients of one server, and the requests that they make again and again."""

    def __init__(self, served: Served, upstream: ChatServer) -> None:
        self.upstream = upstream
        self.openai: Any = openai.OpenAI(base_url=served.url, api_key="none", max_retries=0)
        self.anthropic: Any = anthropic.Anthropic(base_url=served.root, api_key="none", max_retries=0)

    def chat(self, messages: Any = SAY, model: str = "team", **more: Any) -> Any:
        """Return a completion."""
        return self.openai.chat.completions.create(model=model, messages=messages, **more)

    def respond(self, asked: Any = "Say hello.", **more: Any) -> Any:
        """Return a response."""
        return self.openai.responses.create(model="team", input=asked, **more)

    def message(self, messages: Any = SAY, most: int = 1000, **more: Any) -> Any:
        """Return a message."""
        return self.anthropic.messages.create(model="team", messages=messages, max_tokens=most, **more)

    def sent(self, name: str) -> Any:
        """Return a field of the last request that a model got."""
        return self.upstream.calls[-1].body.get(name)


@pytest.fixture(scope="module")
def sdks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sdks]:
    """Serve a conducted team, and a worker as itself."""
    config = CONFIG.replace("description =", 'parts = ["image_url", "file", "input_audio"]\ndescription =')
    with ExitStack() as stack:
        upstream = stack.enter_context(ChatServer(reply).in_thread())
        text = config.format(url=upstream.url, models=MODELS, server="")
        served = stack.enter_context(serving(text, tmp_path_factory.mktemp("features")))
        found = Sdks(served, upstream)
        stack.callback(found.openai.close)
        stack.callback(found.anthropic.close)
        yield found


Row = Callable[[Sdks], object]


def part(**content: Any) -> Any:
    """Return messages with a text and another part."""
    return [{"role": "user", "content": [{"type": "text", "text": "Say hello."}, content]}]


def said(answer: Any) -> bool:
    """Return whether a completion, a response or a message has the text of the scripted model."""
    if hasattr(answer, "choices"):
        text = answer.choices[0].message.content
    else:
        text = answer.output_text if hasattr(answer, "output_text") else answer.content[-1].text
    return bool(text == HELLO)


FUNCTION: Any = {"name": "weather", "description": "Weather of a city", "parameters": SCHEMA}
CHAT_TOOL: Any = {"type": "function", "function": FUNCTION}
FLAT_TOOL: Any = {"type": "function", **FUNCTION}
THEIR_TOOL: Any = {"name": "weather", "description": "Weather of a city", "input_schema": SCHEMA}
CUSTOM: Any = {"type": "custom", "name": "run"}
FORM: Any = {"name": "city", "schema": SCHEMA, "strict": True}


def chat_loop(sdks: Sdks) -> bool:
    """Send the results of tools until there is an answer."""
    messages = list(ASK)
    for _ in range(4):
        found = sdks.chat(messages, tools=[CHAT_TOOL]).choices[0].message
        if not found.tool_calls:
            break
        messages.append(found.to_dict())
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": "sun in Paris"} for call in found.tool_calls
        ]
    return bool(found.content == PARIS)


def response_loop(sdks: Sdks, tool: Any = FLAT_TOOL, kind: str = "function_call") -> bool:
    """Send the results of tools, each time with the id of the response before."""
    found = sdks.respond(ASK, tools=[tool])
    for _ in range(4):
        calls = [item for item in found.output if item.type == kind]
        if not calls:
            break
        results = [
            {"type": f"{kind}_output", "call_id": call.call_id, "output": "sun in Paris"} for call in calls
        ]
        found = sdks.respond(results, tools=[tool], previous_response_id=found.id)
    return bool(found.output_text == PARIS)


def message_loop(sdks: Sdks, **result: Any) -> str:
    """Send the results of tools until there is an answer; return its text."""
    messages = list(ASK)
    for _ in range(4):
        found = sdks.message(messages, tools=[THEIR_TOOL])
        if found.stop_reason != "tool_use":
            break
        messages.append({"role": "assistant", "content": [block.to_dict() for block in found.content]})
        uses = [block.id for block in found.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": use, "content": "sun in Paris", **result} for use in uses
        ]
        messages.append({"role": "user", "content": results})
    return str(found.content[-1].text)


def loop_of_the_sdk(sdks: Sdks) -> bool:
    """Let the SDK call a function."""

    @anthropic.beta_tool
    def weather(city: str) -> str:
        """Weather of a city."""
        return f"sun in {city}"

    runner = sdks.anthropic.beta.messages.tool_runner(
        model="team", max_tokens=100, messages=ASK, tools=[weather]
    )
    return bool(runner.until_done().content[-1].text == PARIS)


def parsed_chat(sdks: Sdks) -> bool:
    """Ask for a class, whole and streamed."""
    asked: Any = {"model": "team", "messages": ASK, "response_format": City}
    whole_one = sdks.openai.chat.completions.parse(**asked).choices[0].message.parsed
    with sdks.openai.chat.completions.stream(**asked) as stream:
        streamed = stream.get_final_completion().choices[0].message.parsed
    return bool(whole_one == streamed == City(city="Paris"))


def background(sdks: Sdks) -> bool:
    """Begin a response in the background, and read its events from the middle."""
    begun = sdks.respond(background=True)
    last = list(sdks.openai.responses.retrieve(begun.id, stream=True, starting_after=1))[-1]
    return last.type == "response.completed" and said(sdks.openai.responses.retrieve(begun.id))


def stored(sdks: Sdks) -> bool:
    """Fetch a response and its input, and delete it."""
    made, api = sdks.respond(), sdks.openai.responses
    (item,) = api.input_items.list(made.id)
    fetched = api.retrieve(made.id)
    api.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        api.retrieve(made.id)
    return said(fetched) and item.content[0].text == "Say hello."


def streamed_message(sdks: Sdks) -> bool:
    """Read a stream with the helper of the SDK."""
    with sdks.anthropic.messages.stream(model="team", messages=SAY, max_tokens=100) as stream:
        text = "".join(stream.text_stream)
        return text == HELLO and said(stream.get_final_message())


def sampled(name: str, value: object, get: str | None = None, **shape: Any) -> Row:
    """Return a row: the model that answers gets a field of a completion."""
    return lambda sdks: said(sdks.chat(**{name: value, **shape})) and sdks.sent(get or name) == value


def passed(name: str, value: object) -> Row:
    """Return a row: the provider of a pass-through gets a field."""

    def ask(sdks: Sdks) -> bool:
        known = {} if name in KNOWN else {"extra_body": {name: value}}
        answer = sdks.chat(model="raw", **known or {name: value})
        return said(answer) and sdks.sent(name) == value

    return ask


KNOWN = ("n", "logprobs", "top_logprobs", "frequency_penalty", "presence_penalty", "logit_bias", "verbosity")
CHAT: Mapping[str, Row] = {
    "models, listed": lambda s: {"team", "raw"} <= {model.id for model in s.openai.models.list()},
    "a model": lambda s: s.openai.models.retrieve("team").id == "team",
    "text": lambda s: said(s.chat()),
    "system": lambda s: said(s.chat([{"role": "system", "content": "Be brief."}, *SAY])),
    "developer": lambda s: said(s.chat([{"role": "developer", "content": "Be brief."}, *SAY])),
    "a conversation": lambda s: said(s.chat([*SAY, {"role": "assistant", "content": "Hello."}, *SAY])),
    "names of speakers": lambda s: said(s.chat([{**SAY[0], "name": "ann"}])),
    "text parts": lambda s: said(s.chat(part(type="text", text="Now."))),
    "images": lambda s: said(s.chat(part(type="image_url", image_url={"url": IMAGE}))),
    "files": lambda s: said(
        s.chat(part(type="file", file={"filename": "a.pdf", "file_data": PAPER}))
    ),
    "audio in": lambda s: said(
        s.chat(part(type="input_audio", input_audio={"data": PIXEL, "format": "wav"}))
    ),
    "a stream": lambda s: (
        "".join(c.choices[0].delta.content or "" for c in s.chat(stream=True) if c.choices) == HELLO
    ),
    "the usage of a stream": lambda s: (
        list(s.chat(stream=True, stream_options={"include_usage": True}))[-1].usage.total_tokens > 0
    ),
    "tools": lambda s: s.chat(ASK, tools=[CHAT_TOOL]).choices[0].message.tool_calls,
    "results of tools": chat_loop,
    "strict tools": lambda s: (
        s.chat(ASK, tools=[{"type": "function", "function": {**FUNCTION, "strict": True}}])
        .choices[0].message.tool_calls
    ),
    "streamed tools": lambda s: any(
        c.choices[0].delta.tool_calls for c in s.chat(ASK, tools=[CHAT_TOOL], stream=True) if c.choices
    ),
    "no tool": lambda s: said(s.chat(tools=[CHAT_TOOL], tool_choice="none")),
    "any tool": lambda s: (
        s.chat(ASK, tools=[CHAT_TOOL], tool_choice="required").choices[0].message.tool_calls
    ),
    "one tool": lambda s: (
        s.chat(ASK, tools=[CHAT_TOOL], tool_choice={"type": "function", "function": {"name": "weather"}})
        .choices[0].message.tool_calls
    ),
    "allowed tools": lambda s: (
        s.chat(
            ASK,
            tools=[CHAT_TOOL],
            tool_choice={"type": "allowed_tools", "allowed_tools": {
                "mode": "auto", "tools": [{"type": "function", "function": {"name": "weather"}}]}},
        ).choices[0].message.tool_calls
    ),
    "one call at a time": lambda s: (
        len(s.chat(ASK, tools=[CHAT_TOOL], parallel_tool_calls=False).choices[0].message.tool_calls) == 1
    ),
    "text as the form": lambda s: said(s.chat(response_format={"type": "text"})),
    "JSON": lambda s: s.chat(response_format={"type": "json_object"}).choices[0].message.content == "{}",
    "a schema": lambda s: (
        '"Paris"' in s.chat(ASK, response_format={"type": "json_schema", "json_schema": FORM})
        .choices[0].message.content
    ),
    "a class": parsed_chat,
    "temperature": sampled("temperature", 0.5),
    "top_p": sampled("top_p", 0.5),
    "seed": sampled("seed", 7),
    "stop": lambda s: s.chat(stop=["to"]).choices[0].message.content == "Hello ",
    "max_tokens": sampled("max_tokens", 500, "max_completion_tokens"),
    "max_completion_tokens": sampled("max_completion_tokens", 500),
    "effort": lambda s: said(s.chat(reasoning_effort="high")),
    "reasoning in the answer": lambda s: "Step 0: ok" in s.chat().choices[0].message.reasoning_content,
    "metadata": lambda s: said(s.chat(metadata={"a": "b"})),
    "store": lambda s: said(s.chat(store=True)),
    "service_tier": lambda s: said(s.chat(service_tier="auto")),
    "user": lambda s: said(s.chat(user="ann")),
    "safety_identifier": lambda s: said(s.chat(safety_identifier="ann")),
    "prompt_cache_key": lambda s: said(s.chat(prompt_cache_key="a")),
    "prompt_cache_retention": lambda s: said(s.chat(prompt_cache_retention="24h")),
    "n": lambda s: len(s.chat(model="raw", n=2).choices) == 2,
    "logprobs": lambda s: (
        s.chat(model="raw", logprobs=True).choices[0].logprobs.to_dict()["content"] == LIKELY["content"]
    ),
    "top_logprobs": lambda s: s.chat(model="raw", logprobs=True, top_logprobs=2) and s.sent("top_logprobs"),
    "frequency_penalty": passed("frequency_penalty", 0.5),
    "presence_penalty": passed("presence_penalty", 0.5),
    "logit_bias": passed("logit_bias", {"50256": -100}),
    "verbosity": passed("verbosity", "low"),
    "modalities": lambda s: said(s.chat(modalities=["text"])),
    "top_k": passed("top_k", 3),
    "prediction": passed("prediction", {"type": "content", "content": "Hello"}),
    "a repeated request": lambda s: (
        len({s.chat(extra_headers={"Idempotency-Key": "chat"}).id for _ in range(2)}) == 1
    ),
    "headers": lambda s: s.openai.chat.completions.with_raw_response.create(
        model="team", messages=SAY).headers["x-request-id"],
    "an error": lambda s: (
        _error(lambda: s.chat(model="none"), openai.NotFoundError).code == "model_not_found"
    ),
}  # fmt: skip
RESPONSES: Mapping[str, Row] = {
    "text": lambda s: said(s.respond()),
    "messages": lambda s: said(s.respond(SAY)),
    "instructions": lambda s: said(s.respond(instructions="Be brief.")),
    "a conversation": lambda s: said(s.respond("Again.", previous_response_id=s.respond().id)),
    "an item by its id": lambda s: said(
        s.respond([{"type": "item_reference", "id": s.respond().output[-1].id}, *SAY])
    ),
    "stored": stored,
    "not stored": lambda s: said(s.respond(store=False)),
    "a stream": lambda s: [e.type for e in s.respond(stream=True)][-1] == "response.completed",
    "a stream by the helper": lambda s: said(_final_response(s)),
    "a class": lambda s: (
        s.openai.responses.parse(model="team", input=ASK, text_format=City).output_parsed
        == City(city="Paris")
    ),
    "background": background,
    "cancel": lambda s: s.openai.responses.cancel(s.respond(background=True).id).status,
    "images": lambda s: said(s.respond(_input(type="input_image", image_url=IMAGE, detail="auto"))),
    "files": lambda s: said(
        s.respond(_input(type="input_file", filename="a.pdf", file_data=PAPER))
    ),
    "tools": lambda s: s.respond(ASK, tools=[FLAT_TOOL]).output[-1].type == "function_call",
    "results of tools": response_loop,
    "custom tools": lambda s: (
        s.respond(ASK, tools=[CUSTOM]).output[-1].type == "custom_tool_call"
    ),
    "results of custom tools": lambda s: response_loop(s, CUSTOM, "custom_tool_call"),
    "no tool": lambda s: said(s.respond(tools=[FLAT_TOOL], tool_choice="none")),
    "any tool": lambda s: s.respond(ASK, tools=[FLAT_TOOL], tool_choice="required").output[-1].name,
    "one tool": lambda s: (
        s.respond(ASK, tools=[FLAT_TOOL], tool_choice={"type": "function", "name": "weather"}).output[-1].name
    ),
    "allowed tools": lambda s: (
        s.respond(ASK, tools=[FLAT_TOOL], tool_choice={
            "type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "weather"}],
        }).output[-1].name
    ),
    "one call at a time": lambda s: (
        s.respond(ASK, tools=[FLAT_TOOL], parallel_tool_calls=False).output[-1].name == "weather"
    ),
    "web_search": lambda s: s.respond(tools=[{"type": "web_search"}]).podium["ignored_tools"],
    "a schema": lambda s: (
        '"Paris"' in s.respond(ASK, text={"format": {"type": "json_schema", **FORM}}).output_text
    ),
    "temperature": lambda s: said(s.respond(temperature=0.5)) and s.sent("temperature") == 0.5,
    "top_p": lambda s: said(s.respond(top_p=0.5)) and s.sent("top_p") == 0.5,
    "max_output_tokens": lambda s: (
        said(s.respond(max_output_tokens=500)) and s.sent("max_completion_tokens") == 500
    ),
    "effort": lambda s: said(s.respond(reasoning={"effort": "high"})),
    "summaries": lambda s: any(
        item.type == "reasoning" for item in s.respond(reasoning={"summary": "auto"}).output
    ),
    "verbosity": lambda s: said(s.respond(text={"verbosity": "low"})),
    "include": lambda s: said(s.respond(include=["reasoning.encrypted_content"])),
    "metadata": lambda s: said(s.respond(metadata={"a": "b"})),
    "service_tier": lambda s: said(s.respond(service_tier="auto")),
    "truncation": lambda s: said(s.respond(truncation="auto")),
    "max_tool_calls": lambda s: said(s.respond(max_tool_calls=3)),
    "user": lambda s: said(s.respond(user="ann")),
    "safety_identifier": lambda s: said(s.respond(safety_identifier="ann")),
    "prompt_cache_key": lambda s: said(s.respond(prompt_cache_key="a")),
    "usage": lambda s: s.respond().usage.input_tokens_details.orchestration_input_tokens > 0,
    "an error": lambda s: (
        _error(lambda: s.respond(previous_response_id="resp_none"), openai.BadRequestError).code
        == "previous_response_not_found"
    ),
}  # fmt: skip
MESSAGES: Mapping[str, Row] = {
    "models": lambda s: "team" in {model.id for model in s.anthropic.models.list()},
    "a model": lambda s: s.anthropic.models.retrieve("team").id == "team",
    "text": lambda s: said(s.message()),
    "system": lambda s: said(s.message(system="Be brief.")),
    "system blocks": lambda s: said(
        s.message(system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
    ),
    "a conversation": lambda s: said(s.message([*SAY, {"role": "assistant", "content": "Hello."}, *SAY])),
    "a stream": lambda s: [e.type for e in s.message(stream=True)][-1] == "message_stop",
    "a stream by the helper": streamed_message,
    "count_tokens": lambda s: s.anthropic.messages.count_tokens(model="team", messages=SAY).input_tokens > 0,
    "images": lambda s: said(
        s.message(part(type="image", source={"type": "base64", "media_type": "image/png", "data": PIXEL}))
    ),
    "images by URL": lambda s: said(
        s.message(part(type="image", source={"type": "url", "url": "https://example.com/a.png"}))
    ),
    "documents": lambda s: said(
        s.message(
            part(type="document", source={"type": "base64", "media_type": "application/pdf", "data": PDF})
        )
    ),
    "documents of text": lambda s: said(
        s.message(part(type="document", source={"type": "text", "media_type": "text/plain", "data": "A."}))
    ),
    "tools": lambda s: s.message(ASK, tools=[THEIR_TOOL]).stop_reason == "tool_use",
    "results of tools": lambda s: message_loop(s) == PARIS,
    "failures of tools": lambda s: "The tool failed:" in message_loop(s, is_error=True),
    "the loop of the SDK": loop_of_the_sdk,
    "any tool": lambda s: (
        s.message(ASK, tools=[THEIR_TOOL], tool_choice={"type": "any"}).stop_reason == "tool_use"
    ),
    "one tool": lambda s: (
        s.message(ASK, tools=[THEIR_TOOL], tool_choice={"type": "tool", "name": "weather"}).stop_reason
        == "tool_use"
    ),
    "no tool": lambda s: said(s.message(tools=[THEIR_TOOL], tool_choice={"type": "none"})),
    "one call at a time": lambda s: (
        s.message(ASK, tools=[THEIR_TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        .stop_reason == "tool_use"
    ),
    "a schema": lambda s: (
        '"Paris"' in s.message(ASK, output_config={"format": {"type": "json_schema", "schema": SCHEMA}})
        .content[-1].text
    ),
    "a class": lambda s: (
        s.anthropic.messages.parse(model="team", messages=ASK, max_tokens=100, output_format=City)
        .parsed_output == City(city="Paris")
    ),
    "temperature": lambda s: (
        said(s.message(extra_body={"temperature": 0.5})) and s.sent("temperature") == 0.5
    ),
    "top_p": lambda s: said(s.message(extra_body={"top_p": 0.5})) and s.sent("top_p") == 0.5,
    "stop_sequences": lambda s: s.message(stop_sequences=["to"]).content[-1].text == "Hello ",
    "max_tokens": lambda s: said(s.message(most=500)) and s.sent("max_completion_tokens") == 500,
    "effort": lambda s: said(s.message(output_config={"effort": "high"})),
    "thinking": lambda s: (
        s.message(most=4000, thinking={"type": "enabled", "budget_tokens": 2000}).content[0].type
        == "thinking"
    ),
    "adaptive thinking": lambda s: s.message(thinking={"type": "adaptive"}).content[0].type == "thinking",
    "metadata": lambda s: said(s.message(metadata={"user_id": "ann"})),
    "service_tier": lambda s: said(s.message(service_tier="auto")),
    "cache_control": lambda s: said(s.message(cache_control={"type": "ephemeral"})),
    "headers": lambda s: s.message()._request_id,
    "an error": lambda s: (
        _error(lambda: s.anthropic.messages.create(model="none", messages=SAY, max_tokens=9),
               anthropic.NotFoundError).body["error"]["type"] == "not_found_error"
    ),
}  # fmt: skip
APIS = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
FEATURES = {f"{api}: {name}": row for api, rows in APIS.items() for name, row in rows.items()}
REFUSED: Mapping[str, Row] = {
    "chat: custom tools": lambda s: s.chat(tools=[{"type": "custom", "custom": {"name": "run"}}]),
    "chat: functions": lambda s: s.chat(functions=[FUNCTION]),
    "chat: web_search_options": lambda s: s.chat(web_search_options={}),
    "chat: audio out": lambda s: s.chat(
        modalities=["text", "audio"], audio={"voice": "ash", "format": "mp3"}
    ),
    "chat: n of a team": lambda s: s.chat(n=2),
    "chat: logprobs of a team": lambda s: s.chat(logprobs=True),
    "chat: penalties of a team": lambda s: s.chat(frequency_penalty=0.5),
    "chat: logit_bias of a team": lambda s: s.chat(logit_bias={"1": 1}),
    "chat: prediction of a team": lambda s: s.chat(prediction={"type": "content", "content": "x"}),
    "chat: stored completions": lambda s: s.openai.chat.completions.retrieve("chatcmpl-1"),
    "responses: file_search": lambda s: s.respond(tools=[{"type": "file_search", "vector_store_ids": ["a"]}]),
    "responses: code_interpreter": lambda s: s.respond(
        tools=[{"type": "code_interpreter", "container": {"type": "auto"}}]
    ),
    "responses: MCP servers": lambda s: s.respond(
        tools=[{"type": "mcp", "server_label": "a", "server_url": "https://example.com"}]
    ),
    "responses: top_logprobs": lambda s: s.respond(top_logprobs=2),
    "responses: conversations": lambda s: s.respond(conversation="conv_1"),
    "responses: saved prompts": lambda s: s.respond(prompt={"id": "pmpt_1"}),
    "responses: files by id": lambda s: s.respond(_input(type="input_file", file_id="file-1")),
    "responses: compact": lambda s: s.openai.responses.compact(model="team", input="Say hello."),
    "responses: count of tokens": lambda s: s.openai.responses.input_tokens.count(model="team", input="x"),
    "messages: top_k": lambda s: s.message(extra_body={"top_k": 3}),
    "messages: a beginning of the answer": lambda s: s.message(
        [*SAY, {"role": "assistant", "content": "Hello"}]
    ),
    "messages: web_search": lambda s: s.message(
        tools=[{"type": "web_search_20250305", "name": "web_search"}]
    ),
    "messages: MCP servers": lambda s: s.message(
        extra_body={"mcp_servers": [{"type": "url", "name": "a", "url": "https://example.com"}]}
    ),
    "messages: batches": lambda s: s.anthropic.messages.batches.list(),
    "embeddings": lambda s: s.openai.embeddings.create(model="team", input="x"),
    "files": lambda s: s.openai.files.list(),
    "completions": lambda s: s.openai.completions.create(model="team", prompt="x"),
    "batches": lambda s: s.openai.batches.list(),
}
"""Features that Podium does not have."""


def _input(**content: Any) -> Any:
    return [{"role": "user", "content": [{"type": "input_text", "text": "Say hello."}, content]}]


def _final_response(sdks: Sdks) -> Any:
    with sdks.openai.responses.stream(model="team", input="Say hello.") as stream:
        return stream.get_final_response()


def _error(ask: Callable[[], object], kind: type[Exception]) -> Any:
    with pytest.raises(kind) as caught:
        ask()
    return caught.value


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature(name: str, sdks: Sdks) -> None:
    """It works."""
    assert FEATURES[name](sdks)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, sdks: Sdks) -> None:
    """A feature that Podium does not have is an error of the request, and calls no model."""
    before = len(sdks.upstream.calls)
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
        REFUSED[name](sdks)
    assert caught.value.status_code in (400, 404, 405)
    assert len(sdks.upstream.calls) == before
