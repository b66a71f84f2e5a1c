"""Reads chat completions and responses of the Responses API, whole or streamed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from podium.errors import AnswerEmpty, AnswerRefused, WorkerBroken, WorkerFailed
from podium.types.messages import Completion, FinishReason, Message, Part, storable, usage_or_estimate
from podium.types.outcome import Problem, inner_problem
from podium.usage import MAX_COUNT, Usage
from podium.workers.openai.errors import ASK_URL, quoted

_WORDS: Mapping[FinishReason, str] = {
    "stop": "stop stop_sequence end_turn eos eos_token endoftext complete completed",
    "length": "length max_length max_tokens max_output_tokens model_length model_context_window_exceeded",
    "content_filter": """
        content_filter content_filtered guardrail_intervened refusal safety image_safety recitation blocklist
        prohibited_content spii sensitive error_toxic
    """,
    "tool_calls": "tool_calls tool_call tool_use function_call",
}
_FINISHES = {word: finish for finish, words in _WORDS.items() for word in words.split()}
_NOT_YET = ("finish_reason_unspecified", "in_progress", "null")
"""Values in the pieces of a stream before its end."""


def read_finish(said: str) -> FinishReason | None:
    """Return the finish reason for a server's value; `None` for an unknown value."""
    return _FINISHES.get(_word(said))


def joined_finish(before: str | None, said: object) -> str | None:
    """Return the finish reason of an answer after another piece; a `stop` does not replace another reason."""
    if not said or _word(str(said)) in _NOT_YET or (before is not None and read_finish(before) != "stop"):
        return before
    return str(said)


def _word(said: str) -> str:
    """Normalize a reason, which may have forms such as `STOP`, `content-filter` and `FinishReason.STOP`."""
    return said.rpartition(".")[2].lower().replace("-", "_")


def read_usage(raw: object) -> Usage | None:
    """Return the usage that a server reported in either API; `None` if it is missing or invalid."""
    if not isinstance(raw, Mapping):
        return None
    counts = _flat(raw)
    if not counts.keys() & set(_READ) or not counts.keys() & set(_WRITTEN):
        return None
    read, written = _first(counts, *_READ), _first(counts, *_WRITTEN)
    cached = _first(counts, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
    if "prompt_tokens" not in counts:  # Anthropic does not count cached tokens as input tokens
        read += _first(counts, "cache_read_input_tokens") + _first(counts, "cache_creation_input_tokens")
    if read + written == 0:
        return None
    reasoning = _first(counts, "reasoning_tokens", "thoughts_tokens")
    hidden_read = _first(counts, "orchestration_input_tokens")
    hidden_written = _first(counts, "orchestration_output_tokens")
    hidden_cached = _first(counts, "orchestration_input_cached_tokens", "orchestration_cached_tokens")
    beside = _first(counts, "total_tokens") - read - written
    # Gemini and Grok do not count reasoning tokens as output tokens
    if beside > 0 and not hidden_read + hidden_written:
        written += beside
        reasoning = max(reasoning, beside)
    elif reasoning > written:
        if "total_tokens" in counts and beside == 0:  # the total shows that the output includes it
            return None
        written += reasoning
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_tokens=cached if cached <= read else 0,
        reasoning_tokens=min(reasoning, written),
        orchestration_input_tokens=hidden_read,
        orchestration_output_tokens=hidden_written,
        orchestration_cached_tokens=hidden_cached if hidden_cached <= hidden_read else 0,
    )


_READ = ("prompt_tokens", "input_tokens")
_WRITTEN = ("completion_tokens", "output_tokens")


def _flat(raw: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of `raw` and of its `…_details` in one mapping; `raw` takes precedence."""
    counts: dict[str, int] = {}
    for key, value in raw.items():
        if isinstance(value, Mapping) and key.endswith("_details"):
            counts = {name: n for name, n in value.items() if _is_count(n)} | counts
    return counts | {key: value for key, value in raw.items() if _is_count(value)}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT


def _first(counts: Mapping[str, int], *names: str) -> int:
    return next((counts[name] for name in names if name in counts), 0)


class AnswerReader:
    """Joins the objects of a response: one object if it is whole, one per event if it is streamed."""

    def __init__(self, usage: Usage | None = None, *, is_bounding: bool = False, keeps: bool = False) -> None:
        self._is_bounding = is_bounding
        """Whether a response that was received to its end has all that the model wrote."""
        self._kept: dict[int, dict[str, Any]] | None = {} if keeps else None
        """The choices by their indexes; of the first only its log probabilities. `None` keeps nothing."""
        self.finish: str | None = None
        """The finish reason from the server; `None` before it arrives."""
        self.problem: Problem | None = None
        """Why the answer of another Podium is incomplete; `None` for a complete answer, or another server."""
        self.acts: bool | None = None
        """Whether the model acts, as servers of Podium say; `None` if the answer does not say it."""
        self._texts: list[str] = []
        self._held = ""
        self._refusal = ""
        self._is_filtered = False
        self._other: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage = usage
        self._is_counted = usage is not None
        """Whether the latest object reports the usage."""
        self._reasoning = ""
        self._model: str | None = None

    def feed(self, raw: Mapping[str, Any]) -> str:
        """Process an object, and return the text that it adds to the answer."""
        self._is_counted = (usage := raw.get("usage")) is not None
        if self._is_counted:
            self._usage = read_usage(usage)  # the last report counts, even if it is invalid
        if isinstance(model := raw.get("model"), str) and model:
            self._model = storable(model)
        self.problem = inner_problem(raw.get("podium")) or self.problem
        match raw.get("podium"):
            case {"acts": bool(acts)}:
                self.acts = acts
        choice = _first_choice(choices) if (choices := raw.get("choices")) else None
        self._keep(choices or ())
        if choice is None:  # the end of a stream, or a piece of a second answer
            self._check_read("", raw)
            return ""
        part, text = self._part_of(choice)
        self._check_read(text, raw)
        self._check_read(text, choice, "delta", "message")
        self._check_read(text, part, "content")
        self._read_calls(part.get("tool_calls"))
        if function := part.get("function_call"):  # the old form of `tool_calls`
            self._read_calls([{"index": 0, "id": "function_call", "function": function}])
        if refusal := part.get("refusal"):
            self._refusal += str(refusal)
        for name in _REASONING_FIELDS:
            self._reasoning += piece if isinstance(piece := part.get(name), str) else ""
        self._other += (f"the field {name!r}" for name in _MEDIA_FIELDS if part.get(name))
        self.finish = joined_finish(self.finish, choice.get("finish_reason"))
        filters = choice.get("content_filter_results")
        for found in filters.values() if isinstance(filters, dict) else ():
            self._is_filtered |= isinstance(found, dict) and found.get("filtered") is True
        return self._add(text, more=self.finish is None)

    def _keep(self, choices: Sequence[Mapping[str, Any]]) -> None:
        if self._kept is not None:
            for choice in choices:
                _keep(self._kept.setdefault(choice.get("index") or 0, {}), choice)

    def _part_of(self, choice: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        """Return the message of a choice, or its piece, and its text."""
        delta, message = choice.get("delta") or {}, choice.get("message") or {}
        for part in (delta, message):
            if not isinstance(part, dict) or part.get("role") in _FOREIGN_ROLES:
                raise _no_completion()
        if any(delta.get(name) for name in _ANSWER_FIELDS) or not message.get("content"):
            part = delta or message
            text = self._text_of(part.get("content"))
            if part is delta:
                self._check_read(text, message)
            return part, text
        text = self._text_of(message.get("content"))
        if not (self._texts or self._calls):
            return message, text
        if not self._has("", text):  # the end of a stream with the whole message
            raise _no_completion()
        return {"refusal": message.get("refusal")}, ""

    def _check_read(self, text: str, place: Mapping[Any, Any], *read: str) -> None:
        """Raise `WorkerBroken` if an object failed, or has text in another field than `read`."""
        status = place.get("status")
        if place.get("success") is False or (isinstance(status, str) and status.lower() in _FAILED):
            raise _broken("the server says that its answer failed or is incomplete")
        for name, value in place.items():
            if name in read or name.lower() not in _TEXT_FIELDS:
                continue
            if not all(self._has(text, found) for found in _texts({name: value})):
                told = f"the answer has text where no client reads it: in {storable(name)!r:.80}"
                raise _broken(told)

    def _has(self, text: str, found: str) -> bool:
        """Return whether a text is blank, is `text`, or is the answer so far, without or with `text`."""
        if (found := found.strip()) in ("", text.strip()):
            return True
        before = "".join(self._texts)
        return storable(found) in (before.strip(), (before + storable(text)).strip())

    def completion(self, messages: Sequence[Message]) -> Completion:
        """Return the whole answer."""
        if self.finish is None:
            told = "the answer is incomplete: it has no finish_reason"
            raise WorkerBroken(
                told if self._has_begun else f"{told} and no text; {ASK_URL}",
                maybe_paid=True,
                usage=self._usage if self._is_counted else None,
                received=self._received() if self._is_bounding else None,
            )
        finish, text = read_finish(self.finish), "".join(self._texts)
        unread = partial(WorkerBroken, maybe_paid=True, usage=self._usage)
        refused = partial(AnswerRefused, maybe_paid=True, usage=self._usage)
        if finish is None:
            raise unread(f"the answer has the unknown finish_reason {storable(self.finish)!r:.80}")
        if finish == "content_filter" or self._is_filtered or self._refusal:
            said = f": {storable(self._refusal)[:300]!r}" if self._refusal else ""
            raise refused(f"the model or its content filter refused to answer{said}")
        calls = tuple(_storable_json(call) for call in self._calls.values())
        if not text.strip() and not calls:
            if self._other:
                told = f"the answer has no text; {_told(self._other)}"
                raise WorkerFailed(told, maybe_paid=True, usage=self._usage)
            hint = ": reasoning used all its tokens, so raise max_tokens" if finish == "length" else ""
            told = f"the answer is empty{hint}"
            raise AnswerEmpty(told, maybe_paid=True, usage=self._usage)
        if finish == "tool_calls" and not calls:
            said = storable(self.finish)
            raise refused(f"the finish_reason is {said!r:.80}, and the answer calls no tool")
        if any(call["type"] == "function" and not call["function"]["name"] for call in calls):
            raise unread("the answer calls a tool without a name")
        usage = usage_or_estimate(self._usage, messages, text, calls)
        missing = None if not self._other else _told(self._other)
        if self.problem is not None and (finish, self.problem.code) != ("length", "cut"):
            missing = self.problem.message
        return Completion(text, finish, usage, self._model, calls, missing=missing, data=self._data())

    def _data(self) -> Mapping[str, Any] | None:
        if not self._kept:
            return None
        others = [self._kept[index] for index in sorted(self._kept) if index]
        data = {"logprobs": self._kept.get(0, {}).get("logprobs"), "choices": others}
        found: Part = _storable_json({name: value for name, value in data.items() if value})
        return found or None

    @property
    def _has_begun(self) -> bool:
        """Whether a part of an answer has arrived."""
        parts = (self._texts, self._calls, self._other, self._refusal, self._reasoning, self._usage)
        return any(parts)

    def _received(self) -> str | None:
        """Return all that the model wrote; `None` if nothing arrived, because it may have been reasoning."""
        calls = json.dumps(list(self._calls.values())) if self._calls else ""
        return "".join((self._reasoning, *self._texts, calls)) or None

    def _add(self, text: str, *, more: bool) -> str:
        """Make `text` storable. Half a surrogate pair at its end is kept for the next piece."""
        text, self._held = self._held + text, ""
        if more and text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        if text:
            text = storable(text)
            self._texts.append(text)
        return text

    def _text_of(self, content: object) -> str:
        """Return the text of a message's content (text, `None` or a list of parts); store its other parts."""
        if isinstance(content, str):
            return content
        if content is None:
            return ""
        if not isinstance(content, list):
            kind = type(content).__name__
            raise _broken(f"the answer's content is neither text nor parts: {kind}")
        texts = []
        for part in content:
            match part:
                case {"type": "refusal", "refusal": str(refusal)}:
                    self._refusal += refusal
                case {"text": str(text), **rest} if rest.get("type", "text") in _TEXT_PARTS:
                    self._check_read(text, rest)
                    texts.append(text)
                case {"type": str(kind)} if kind in _REASONING_PARTS:
                    pass
                case {"type": str(kind)} if kind not in _TEXT_PARTS:
                    self._other.append(f"a part of type {storable(kind)!r:.80}")
                case _:
                    raise _broken("a part of the answer's content has no text")
        return "".join(texts)

    def _read_calls(self, calls: object) -> None:
        for call in calls if isinstance(calls, list) else [calls] if calls else ():
            if not isinstance(call, dict) or not isinstance(call.get("function") or {}, dict):
                raise _broken("the server's tool_calls are not a list of objects")
            index = call.get("index")
            if not isinstance(index, int):
                index = len(self._calls) if call.get("id") else max(0, len(self._calls) - 1)
            _merge_call(self._calls.setdefault(index, {"type": "function"}), call)


def _keep(kept: dict[str, Any], choice: Mapping[str, Any]) -> None:
    """Add a choice, or a piece of it, to what is kept of it."""
    kept["index"] = choice.get("index") or 0
    kept["finish_reason"] = choice.get("finish_reason") or kept.get("finish_reason")
    if isinstance(logprobs := choice.get("logprobs"), dict):
        known = kept.setdefault("logprobs", {})
        for name, found in logprobs.items():
            known[name] = [*(known.get(name) or ()), *found] if isinstance(found, list) else found
    if not kept["index"]:
        return
    message = kept.setdefault("message", {"role": "assistant", "content": ""})
    piece = choice.get("message") or choice.get("delta") or {}
    for name, value in piece.items() if isinstance(piece, dict) else ():
        if name == "tool_calls":
            calls = message.setdefault("tool_calls", [])
            for call in value or ():
                at = min(call.get("index", len(calls)), len(calls))
                calls += [{"type": "function"}] if at == len(calls) else []
                _merge_call(calls[at], call)
        elif isinstance(value, str) and name != "role":
            message[name] = (message.get(name) or "") + value


def _first_choice(choices: object) -> Mapping[str, Any] | None:
    """Return the choice with the index 0, or without an index; `None` if there are only other choices."""
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise _no_completion()
    indexes = [choice.get("index") or 0 for choice in choices]
    if indexes.count(0) > 1 or not all(isinstance(index, int) for index in indexes):
        raise _no_completion()
    return choices[indexes.index(0)] if 0 in indexes else None


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a value, also those in its fields for text; a plain `message` is a status."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case {"type": str(kind)} if kind in _REASONING_PARTS:
            pass
        case dict():
            for name, item in value.items():
                if name.lower() in _TEXT_FIELDS and not (name == "message" and isinstance(item, str)):
                    yield from _texts(item)


def _broken(told: str) -> WorkerBroken:
    """Return the error of an answer that cannot be read."""
    return WorkerBroken(told, maybe_paid=True)


def _no_completion() -> WorkerBroken:
    return _broken(f"the server's choices are not valid for a chat completion; {ASK_URL}")


def _merge_call(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Merge a piece of a tool call: append the arguments, and set the other fields."""
    function = {"name": "", "arguments": ""} | whole.get("function", {})
    said = piece.get("function")
    if isinstance(said, dict):
        arguments = function["arguments"] + str(said.get("arguments") or "")
        function |= {key: value for key, value in said.items() if value} | {"arguments": arguments}
    whole |= {key: value for key, value in piece.items() if value and key not in ("index", "function")}
    whole["function"] = function


_TEXT_PARTS = ("text", "output_text")
_REASONING_PARTS = ("thinking", "reasoning", "reasoning_text", "redacted_thinking")
"""Types of parts in which some servers send the model's reasoning."""
_TEXT_FIELDS = frozenset(
    {"content", "delta", "message", "parts", "text", "token", "value"}
    | {"candidates", "generated_text", "output", "output_text", "response"}
)
"""Fields in which servers of other APIs, or broken ones, send text; in lower case."""
_ANSWER_FIELDS = ("content", "tool_calls", "function_call", "refusal")
_FAILED = ("failed", "incomplete")
_MEDIA_FIELDS = ("audio", "images")
"""Fields of a message in which some servers send parts that are not text."""
_FOREIGN_ROLES = ("system", "developer", "user", "tool", "function")
_REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields of a message in which some servers send it."""


def _told(other: Sequence[str]) -> str:
    kinds = ", ".join(dict.fromkeys(other))
    return f"not passed on, since the output of a step is text: {kinds}"


def _storable_json(value: Any) -> Part | Any:
    match value:
        case str():
            return storable(value)
        case dict():
            return {storable(str(key)): _storable_json(item) for key, item in value.items()}
        case list():
            return [_storable_json(item) for item in value]
        case _:
            return value


class ResponsesReader(AnswerReader):
    """Reads responses, whole or streamed, as chat completions."""

    def feed(self, raw: Mapping[str, Any]) -> str:
        """Process a response or an event of a stream, and return the text that it adds to the answer."""
        match raw:
            case {"type": "response.output_text.delta", "delta": str(text)}:
                return super().feed(_piece({"content": text}))
            case {"type": "response.refusal.delta", "delta": str(text)}:
                return super().feed(_piece({"refusal": text}))
            case {"type": "response.output_text.delta" | "response.refusal.delta" as kind}:
                raise _broken(f"an event {kind} has no text")
            case {"type": "error" | "response.failed"}:
                failed = raw.get("response", raw)
                reason = (failed.get("error") or failed).get("message", "no reason given")
                raise _broken(f"the server says that its answer failed: {quoted(str(reason))}")
            case {"type": "response.completed" | "response.incomplete"}:
                return super().feed(self._as_chat(raw.get("response") or {}))
            case {"output": _} if raw.get("type") is None:
                return super().feed(self._as_chat(raw))
        return ""

    def _as_chat(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """Return a whole response in the form of a chat completion, without text that was streamed."""
        if failed := whole.get("error"):
            raise _broken(f"the response has an error: {quoted(str(failed))}")
        if whole.get("status") not in ("completed", "incomplete"):
            raise _broken(f"the response ended {whole.get('status')!r}")
        parts, calls, is_cut = list[Any](), list[Part](), whole["status"] == "incomplete"
        for item in whole.get("output") or ():
            match item:
                case {"type": "function_call"}:
                    calls.append(_chat_call(item))
                case {"type": "message", "content": list(content)} if item.get("role") in _OWN_ROLES:
                    parts += content
                    is_cut = is_cut or item.get("status") == "incomplete"
                case dict() if item.get("type") != "message":
                    pass
                case _:
                    raise _broken("the output of the response has an item that cannot be read")
        if not all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts):
            raise _broken("the output of the response has a part that cannot be read")
        texts = [part for part in parts if part["type"] in _TEXTS and isinstance(part.get("text"), str)]
        streamed = "".join(self._texts)
        if streamed and texts and "".join(part["text"] for part in texts).split() != streamed.split():
            raise _broken("the pieces of the stream differ from the text of the response")
        read = [
            *(texts if streamed else ()),
            *(part for part in parts if self._refusal and "refusal" in part),
        ]
        finish = "length" if is_cut else "tool_calls" if calls else "stop"
        if (whole.get("incomplete_details") or {}).get("reason") == "content_filter":
            finish = "content_filter"
        rest = [part for part in parts if part not in read]
        facts = {name: whole[name] for name in ("usage", "model", "podium") if name in whole}
        return {**_piece({"content": rest, "tool_calls": calls}, finish_reason=finish), **facts}


_OWN_ROLES = ("assistant", None)
_TEXTS = ("output_text", "text")


def _piece(delta: Part, **more: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, **more}]}


def _chat_call(item: Mapping[str, Any]) -> Part:
    function = {"name": item.get("name", ""), "arguments": item.get("arguments", "")}
    return {"id": item.get("call_id", ""), "type": "function", "function": function}
