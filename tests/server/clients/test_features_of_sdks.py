"""Features of `docs/server.md`, tried with the SDKs of OpenAI and Anthropic for Python."""

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel
from server.scene import CONFIG
from servers.capable import capable
from servers.chat_server import ChatServer
from servers.podium_server import Served, serving

pytestmark = pytest.mark.long

HELLO = "Hello to you, too."
PARIS = "The tools say sun in Paris."
SAY: Any = [{"role": "user", "content": "Say hello."}]
ASK: Any = [{"role": "user", "content": "What is the weather in 'Paris'?"}]
SCHEMA: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SCHEMA["additionalProperties"] = False
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
PDF = base64.b64encode(b"%PDF-1.4").decode()
IMAGE = f"data:image/png;base64,{PIXEL}"
PAPER = f"data:application/pdf;base64,{PDF}"
MODELS = '[models.team]\n[models.raw]\nworker = "one"\n'


class City(BaseModel):
    city: str


class Sdks:
    """The clients of one server, and the requests that they make again and again."""

    def __init__(self, served: Served, upstream: ChatServer) -> None:
        self.upstream = upstream
        self.openai: Any = openai.OpenAI(base_url=served.url, api_key="none", max_retries=0)
        self.anthropic: Any = anthropic.Anthropic(base_url=served.root, api_key="none", max_retries=0)

    def chat(self, messages: Any = SAY, model: str = "team", **more: Any) -> Any:
        return self.openai.chat.completions.create(model=model, messages=messages, **more)

    def responses(self, asked: Any = "Say hello.", **more: Any) -> Any:
        return self.openai.responses.create(model="team", input=asked, **more)

    def messages(self, messages: Any = SAY, most: int = 1000, **more: Any) -> Any:
        return self.anthropic.messages.create(model="team", messages=messages, max_tokens=most, **more)


@pytest.fixture(scope="module")
def sdks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sdks]:
    config = CONFIG.replace("description =", 'parts = ["image_url", "file", "input_audio"]\ndescription =')
    with ExitStack() as stack:
        upstream = stack.enter_context(ChatServer(capable).in_thread())
        text = config.format(url=upstream.url, models=MODELS, server="")
        served = stack.enter_context(serving(text, tmp_path_factory.mktemp("features")))
        found = Sdks(served, upstream)
        stack.callback(found.openai.close)
        stack.callback(found.anthropic.close)
        yield found


def part(kind: str = "text", **content: Any) -> Any:
    return [{"role": "user", "content": [{"type": kind, "text": "Say hello."}, content]}]


def said(answer: Any) -> bool:
    """Return whether a completion, a response or a message has the text of the scripted model."""
    if hasattr(answer, "choices"):
        text = answer.choices[0].message.content
    else:
        text = answer.output_text if hasattr(answer, "output_text") else answer.content[-1].text
    return bool(text == HELLO)


def calls(answer: Any) -> bool:
    if hasattr(answer, "choices"):
        return len(answer.choices[0].message.tool_calls or ()) == 1
    last = answer.output[-1] if hasattr(answer, "output") else answer.content[-1]
    return last.type in ("function_call", "custom_tool_call", "tool_use")


FUNCTION: Any = {"name": "weather", "description": "Weather of a city", "parameters": SCHEMA}
CHAT_TOOL: Any = {"type": "function", "function": FUNCTION}
FLAT_TOOL: Any = {"type": "function", **FUNCTION}
THEIR_TOOL: Any = {"name": "weather", "description": "Weather of a city", "input_schema": SCHEMA}
CUSTOM: Any = {"type": "custom", "name": "run"}
NAMED: Any = {"type": "function", "function": {"name": "weather"}}
BRIEF = {"role": "system", "content": "Be brief."}
SOURCE = {"type": "base64", "media_type": "image/png", "data": PIXEL}
PAGES = {"type": "base64", "media_type": "application/pdf", "data": PDF}
LINKED = {"type": "url", "url": "https://example.com/a.png"}
FORM = {"format": {"type": "json_schema", "schema": SCHEMA}}
Given = list[tuple[str, dict[str, Any]]]
ACCEPTED: Given = [
    ("chat", {"messages": [BRIEF, *SAY]}),
    ("chat", {"messages": [{**BRIEF, "role": "developer"}, *SAY]}),
    ("chat", {"messages": [{**SAY[0], "name": "ann"}]}),
    ("chat", {"messages": part(type="image_url", image_url={"url": IMAGE})}),
    ("chat", {"messages": part(type="file", file={"filename": "a.pdf", "file_data": PAPER})}),
    ("chat", {"messages": part(type="input_audio", input_audio={"data": PIXEL, "format": "wav"})}),
    ("chat", {"tools": [CHAT_TOOL], "tool_choice": "none"}),
    ("chat", {"response_format": {"type": "text"}}),
    ("chat", {"metadata": {"a": "b"}}),
    ("chat", {"store": True}),
    ("chat", {"service_tier": "auto"}),
    ("chat", {"prompt_cache_key": "a"}),
    ("chat", {"prompt_cache_retention": "24h"}),
    ("chat", {"modalities": ["text"]}),
    ("chat", {"model": "raw", "extra_body": {"prediction": {"type": "content", "content": "Hello"}}}),
    ("responses", {"asked": SAY}),
    ("responses", {"asked": part("input_text", type="input_image", image_url=IMAGE, detail="auto")}),
    ("responses", {"asked": part("input_text", type="input_file", filename="a.pdf", file_data=PAPER)}),
    ("responses", {"tools": [FLAT_TOOL], "tool_choice": "none"}),
    ("responses", {"reasoning": {"effort": "high", "summary": "auto"}}),
    ("responses", {"text": {"verbosity": "low"}}),
    ("responses", {"include": ["reasoning.encrypted_content"]}),
    ("responses", {"service_tier": "auto"}),
    ("responses", {"truncation": "auto"}),
    ("responses", {"max_tool_calls": 3}),
    ("responses", {"safety_identifier": "ann"}),
    ("responses", {"prompt_cache_key": "a"}),
    ("messages", {"system": [{"type": "text", "text": "A.", "cache_control": {"type": "ephemeral"}}]}),
    ("messages", {"messages": part(type="image", source=SOURCE)}),
    ("messages", {"messages": part(type="image", source=LINKED)}),
    ("messages", {"messages": part(type="document", source=PAGES)}),
    ("messages", {"tools": [THEIR_TOOL], "tool_choice": {"type": "none"}}),
    ("messages", {"service_tier": "auto"}),
    ("messages", {"cache_control": {"type": "ephemeral"}}),
]
"""Fields of each API with which the answer is the usual text."""
CALLED: Given = [
    ("chat", {"tools": [{"type": "function", "function": {**FUNCTION, "strict": True}}]}),
    ("chat", {"tools": [CHAT_TOOL], "tool_choice": "required"}),
    ("chat", {"tools": [CHAT_TOOL], "tool_choice": NAMED}),
    ("responses", {"tools": [FLAT_TOOL], "tool_choice": "required"}),
    ("responses", {"tools": [FLAT_TOOL], "tool_choice": {"type": "function", "name": "weather"}}),
    ("responses", {"tools": [CUSTOM]}),
    ("messages", {"tools": [THEIR_TOOL], "tool_choice": {"type": "any"}}),
    ("messages", {"tools": [THEIR_TOOL], "tool_choice": {"type": "tool", "name": "weather"}}),
]
"""Fields with which a tool is called."""


def response_loop(sdks: Sdks, tool: Any, kind: str) -> bool:
    found = sdks.responses(ASK, tools=[tool])
    for _ in range(4):
        made = [item for item in found.output if item.type == kind]
        if not made:
            break
        told = {"type": f"{kind}_output", "output": "sun in Paris"}
        results = [{**told, "call_id": call.call_id} for call in made]
        found = sdks.responses(results, tools=[tool], previous_response_id=found.id)
    return bool(found.output_text == PARIS)


def parsed_chat(sdks: Sdks) -> bool:
    asked: Any = {"model": "team", "messages": ASK, "response_format": City}
    whole_one = sdks.openai.chat.completions.parse(**asked).choices[0].message.parsed
    with sdks.openai.chat.completions.stream(**asked) as stream:
        streamed = stream.get_final_completion().choices[0].message.parsed
    return bool(whole_one == streamed == City(city="Paris"))


def parsed_others(sdks: Sdks) -> bool:
    response = sdks.openai.responses.parse(model="team", input=ASK, text_format=City).output_parsed
    asked: Any = {"model": "team", "messages": ASK, "max_tokens": 100, "output_format": City}
    return bool(response == sdks.anthropic.messages.parse(**asked).parsed_output == City(city="Paris"))


def background(sdks: Sdks) -> bool:
    begun = sdks.responses(background=True)
    last = list(sdks.openai.responses.retrieve(begun.id, stream=True, starting_after=1))[-1]
    return last.type == "response.completed" and said(sdks.openai.responses.retrieve(begun.id))


def streamed_tools(sdks: Sdks) -> bool:
    chunks = sdks.chat(ASK, tools=[CHAT_TOOL], stream=True)
    return any(chunk.choices[0].delta.tool_calls for chunk in chunks if chunk.choices)


def stopped(sdks: Sdks) -> bool:
    completion, message = sdks.chat(stop=["to"]), sdks.messages(stop_sequences=["to"])
    return bool(completion.choices[0].message.content == message.content[-1].text == "Hello ")


Row = Callable[[Sdks], object]
ROWS: dict[str, Row] = {
    "streamed tools": streamed_tools,
    "stop": stopped,
    "a class": parsed_chat,
    "a class of other APIs": parsed_others,
    "background": background,
    "functions": lambda s: response_loop(s, FLAT_TOOL, "function_call"),
    "custom tools": lambda s: response_loop(s, CUSTOM, "custom_tool_call"),
    "JSON": lambda s: s.chat(response_format={"type": "json_object"}).choices[0].message.content == "{}",
    "adaptive thinking": lambda s: s.messages(thinking={"type": "adaptive"}).content[0].type == "thinking",
    "a schema of messages": lambda s: '"Paris"' in s.messages(ASK, output_config=FORM).content[-1].text,
}
REFUSED: Given = [
    ("chat", {"tools": [{"type": "custom", "custom": {"name": "run"}}]}),
    ("chat", {"functions": [FUNCTION]}),
    ("chat", {"web_search_options": {}}),
    ("chat", {"modalities": ["text", "audio"], "audio": {"voice": "ash", "format": "mp3"}}),
    ("chat", {"logprobs": True}),
    ("chat", {"frequency_penalty": 0.5}),
    ("chat", {"logit_bias": {"1": 1}}),
    ("chat", {"prediction": {"type": "content", "content": "x"}}),
    ("responses", {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
    ("responses", {"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://example.com"}]}),
    ("responses", {"top_logprobs": 2}),
    ("responses", {"prompt": {"id": "pmpt_1"}}),
    ("responses", {"asked": part("input_text", type="input_file", file_id="file-1")}),
]
ROUTES: dict[str, Row] = {
    "stored completions": lambda s: s.openai.chat.completions.retrieve("chatcmpl-1"),
    "compact": lambda s: s.openai.responses.compact(model="team", input="Say hello."),
    "count of tokens": lambda s: s.openai.responses.input_tokens.count(model="team", input="x"),
    "batches of messages": lambda s: s.anthropic.messages.batches.list(),
    "embeddings": lambda s: s.openai.embeddings.create(model="team", input="x"),
    "files": lambda s: s.openai.files.list(),
    "completions": lambda s: s.openai.completions.create(model="team", prompt="x"),
    "batches": lambda s: s.openai.batches.list(),
}
"""Routes that Podium does not have."""


@pytest.mark.parametrize(("api", "given"), ACCEPTED)
def test_an_accepted_field(api: str, given: dict[str, Any], sdks: Sdks) -> None:
    assert said(getattr(sdks, api)(**given))


@pytest.mark.parametrize(("api", "given"), CALLED)
def test_a_tool_is_called(api: str, given: dict[str, Any], sdks: Sdks) -> None:
    assert calls(getattr(sdks, api)(ASK, **given))


@pytest.mark.parametrize("name", ROWS)
def test_a_feature(name: str, sdks: Sdks) -> None:
    assert ROWS[name](sdks)


@pytest.mark.parametrize("ask", [*REFUSED, *ROUTES.values()])
def test_refused(ask: Any, sdks: Sdks) -> None:
    before = len(sdks.upstream.calls)
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
        ask(sdks) if callable(ask) else getattr(sdks, ask[0])(**ask[1])
    assert caught.value.status_code in (400, 404, 405)
    assert len(sdks.upstream.calls) == before
