"""The input of a batch: reads its lines one at a time, and makes runs of their requests."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from podium.cli.screen import counted
from podium.errors import ConfigError, PodiumError
from podium.hosts import RecordedRun
from podium.hosts.chat import whole_answers
from podium.hosts.completions import Body
from podium.types import Message, Plan, Problem, Result, RunEnded
from podium.types.messages import read_conversation
from podium_server.api.chat import ChatRequest, whole_response
from podium_server.api.responses.request import ResponseRequest, messages_of, read_items
from podium_server.api.responses.writer import Response, ResponseWriter
from podium_server.api.runs.requests import Name, PlanBody
from podium_server.http import BadRequest
from podium_server.http.exchange import read_body
from podium_server.keys import Caller
from podium_server.models import Catalogue, ModelUnknown, ServedModel
from podium_server.turn import Asked, Recorded, Turn, Turns

_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: JSON can have it as a code, and UTF-8 cannot write it."""


def read_object(text: str) -> dict[str, Any]:
    """Return a line as JSON."""
    try:
        given = json.loads(text, object_pairs_hook=_fields)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the line is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadRequest("the line is not a JSON object")
    return given


def _fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    given = dict(pairs)
    if len(given) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"the line has the field {twice!r:.80} twice in one object: remove one of them")
    return given


def json_text(given: object) -> str:
    """Return a value as JSON that UTF-8 can write; half of a surrogate pair is written as its code."""
    text = json.dumps(given, ensure_ascii=False)
    return json.dumps(given) if _HALF.search(text) else text


def json_bytes(given: object) -> bytes:
    """Return a line as JSON."""
    text = json.dumps(given, ensure_ascii=False)
    if half := _HALF.search(text):
        told = f"the line has \\u{ord(half[0]):04x}, which is only half of a character"
        raise BadRequest(f"{told}: write both halves, or the character itself")
    return text.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a line's run."""

    result: Result
    status: str
    """The status of the result; `partial` also if the answer lacks the requested form."""
    problem: Problem | None = None
    body: Mapping[str, Any] | None = None
    """The body of OpenAI's response; `None` for a line that is not of OpenAI's form."""


class Request(Protocol):
    """What a line asks for."""

    def check(self, model: ServedModel) -> None:
        """Raise `PodiumError` if the model cannot answer the request."""

    def conversation_for(self, model: ServedModel) -> Sequence[Message]:
        """Return the conversation, with the question last."""

    async def answer(
        self, turns: Turns, model: ServedModel, run_id: str, recorded: Recorded | None
    ) -> Answer:
        """Run the request, and return its answer."""


class Question(Body):
    """A line of a batch."""

    id: Annotated[Annotated[str, Field(min_length=1)] | int, Field(union_mode="left_to_right")] | None = None
    query: str | list[dict[str, Any]] | None = None
    question: str | None = None
    messages: list[dict[str, Any]] | None = None
    model: Name | None = None
    context: dict[str, str] = Field(default_factory=dict)
    plan: PlanBody | None = None
    labels: list[Name] = Field(default_factory=list)
    failure: Any = None
    """Ignored: a line of a file with failures has it."""

    @property
    def conversation(self) -> Sequence[Message]:
        """The question as messages."""
        given = [each for each in (self.query, self.question, self.messages) if each is not None]
        if len(given) != 1:
            raise BadRequest("write one question, as `query`, `question` or `messages`")
        asked = given[0]
        wires = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        messages = [Message.from_wire(wire) for wire in wires]
        read_conversation(messages)
        return messages

    def conversation_for(self, model: ServedModel) -> Sequence[Message]:
        """Return the question as messages, which is the same for each model."""
        del model
        return self.conversation

    def content(self) -> Mapping[str, Any]:
        """Return what the run depends on, except the model."""
        given = self.model_dump(mode="json", include={"context", "plan", "labels"}, exclude_unset=True)
        return {**given, "messages": [message.to_wire() for message in self.conversation]}

    def check(self, model: ServedModel) -> None:
        """Raise `PodiumError` if the plan does not fit the model, or the model uses no plan and no texts."""
        if model.is_worker and (self.plan is not None or self.context):
            told = f"the model {model.name} is a worker that answers as itself, without `plan` and `context`"
            raise BadRequest(f"{told}: leave them out, or name another model")
        if self.plan is not None:
            self._plan(self.plan, model)

    def _plan(self, body: PlanBody, model: ServedModel) -> Plan:
        plan, conductor = body.plan(model.workers), model.conductor
        plan.fit(len(model.workers), conductor.limits.plan_steps)
        return plan

    async def answer(
        self, turns: Turns, model: ServedModel, run_id: str, recorded: Recorded | None
    ) -> Answer:
        """Run the question; see `Request.answer`."""
        if recorded is not None:
            return _answer(recorded.result)
        messages = self.conversation
        asked = Asked(model=model.name, messages=messages, run_id=run_id, may_exist=True)
        async with turns.admitted_run(Caller(), asked) as turn:
            options = turn.options.copy()
            options["middleware"] = whole_answers(options.get("middleware"))
            options["context"], options["labels"] = self.context, frozenset(self.labels)
            given: Sequence[Message] | Plan = messages
            if self.plan is not None:
                given = replace(self._plan(self.plan, model), query=tuple(messages))
            result: Result | None = None
            async for event in RecordedRun(turn.conductor, given, options).events():
                if isinstance(event, RunEnded) and event.run_id == run_id:
                    result = event.result
                    turn.settle(result)
            assert result is not None  # a run without a result raises
            return _answer(result)


def _answer(result: Result) -> Answer:
    return Answer(result=result, status=result.status, problem=result.problem)


class OpenAILine(Body):
    """A line of an input file of OpenAI's Batch API."""

    custom_id: Annotated[str, Field(min_length=1)]
    method: Literal["POST"] = "POST"
    url: Literal["/v1/chat/completions", "/v1/responses"]
    body: dict[str, Any]
    failure: Any = None
    """Ignored: a line of a file with failures has it."""

    @property
    def id(self) -> str:
        """The id of the line."""
        return self.custom_id

    @property
    def model(self) -> object:
        """The model in the body; `None` if it has none."""
        return self.body.get("model")

    def content(self) -> Mapping[str, Any]:
        """Return what the run depends on, except the model."""
        return {"url": self.url, "body": {key: self.body[key] for key in self.body if key != "model"}}

    def check(self, model: ServedModel) -> None:
        """Raise `PodiumError` if the body is invalid."""
        self._asked(self._request(model.name), "")

    def conversation_for(self, model: ServedModel) -> Sequence[Message]:
        """Return the conversation, with the question last."""
        return self._asked(self._request(model.name), "").messages

    async def answer(
        self, turns: Turns, model: ServedModel, run_id: str, recorded: Recorded | None
    ) -> Answer:
        """Run the request; see `Request.answer`."""
        request = self._request(model.name)
        async with turns.admitted(Caller(), self._asked(request, run_id), recorded) as turn:
            if isinstance(request, ChatRequest):
                body: Mapping[str, Any] = whole_response(turn, await turn.run())
            else:
                body = await _response(request, turn)
            summary = turn.answered.summary
            return Answer(
                result=turn.answered.answer.result,
                status=summary["status"],
                problem=turn.answered.problem,
                body=body,
            )

    def _request(self, model: str) -> ChatRequest | ResponseRequest:
        raw = json.dumps({**self.body, "model": model}).encode()
        if self.url == "/v1/chat/completions":
            return read_body(raw, ChatRequest)
        return read_body(raw, ResponseRequest)

    def _asked(self, request: ChatRequest | ResponseRequest, run_id: str) -> Asked:
        if request.stream:
            raise BadRequest("a line of a batch cannot be streamed: leave out `stream`", param="stream")
        if isinstance(request, ChatRequest):
            return replace(request.asked(None, ""), run_id=run_id, may_exist=True)
        for field in ("background", "previous_response_id"):
            if getattr(request, field):
                raise BadRequest(f"a line of a batch cannot have `{field}`: leave it out", param=field)
        messages = messages_of(request.instructions, read_items(request.input, run_id))
        return request.asked(messages, run_id=run_id, keeps=True, may_exist=True)


async def _response(request: ResponseRequest, turn: Turn) -> Mapping[str, Any]:
    """Run a turn, and return the body of its response; it is in the journal, but not stored as a response."""
    response = Response(
        request=request, run_id=turn.run_id, model=turn.model.versioned_id, created=int(time()), keeps=False
    )
    await ResponseWriter(response).write(turn)
    return response.to_json()


Form = Literal["plain", "openai"]

_MOST_BYTES = 64 * 2**20
"""Maximum length of a line."""
_DIGITS = 24
"""Hexadecimal digits of the hash in a run's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line with a request."""

    number: int
    """From 1."""
    id: str
    run_id: str
    given: Mapping[str, Any]
    """The line as JSON."""
    request: Request
    model: ServedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that cannot be run."""

    number: int
    id: str | None
    """`None` if it has none that can be read."""
    given: object
    """The line as JSON, or as text if it is not JSON."""
    error: PodiumError


class Input:
    """The lines of a file.

    A file whose name ends in `.txt` has a question in each line; any other file has a JSON object in each
    line. Only the hashes of the ids stay in memory.
    """

    def __init__(self, path: Path, name: str, catalogue: Catalogue, model: str | None) -> None:
        self._path = path
        self._name = name
        self._catalogue = catalogue
        try:
            self._model = next(iter(catalogue)) if model is None else self._find(model)
        except ModelUnknown as error:
            raise ConfigError(f"--model: {error}") from None
        self.count = 0
        """The number of lines that are not empty."""
        self.repeated = 0
        """The number of lines without an id that are equal to an earlier line."""
        self._count()
        self.form: Form = "openai" if self._is_openai() else "plain"

    @property
    def repeated_told(self) -> str:
        """The warning about repeated lines."""
        told = f"{counted(self.repeated, 'line')} without an id, equal to earlier lines"
        return f"{told}: each is a run of its own, and is paid for"

    def __iter__(self) -> Iterator[Line | BadLine]:
        seen: dict[bytes, int] = {}
        for number, raw in self._texts():
            given: object = raw.decode("utf-8", "replace")
            ident: str | None = None
            try:
                if len(raw) > _MOST_BYTES:
                    given = given[:200] if isinstance(given, str) else given
                    raise BadRequest(f"the line is longer than {_MOST_BYTES} bytes")
                given = self._object(raw)
                ident = _id_of(given)
                if ident is not None and _is_again(ident, seen):
                    told = f"an earlier line has the id {ident!r:.80}"
                    raise BadRequest(f"{told}: give each line another id")
                yield self._line(number, given, seen)
            except PodiumError as error:
                yield BadLine(number=number, id=ident, given=given, error=error)

    def _count(self) -> None:
        seen = set[bytes]()
        for _, raw in self._texts():
            self.count += 1
            key = sha256(raw.strip(b"\r\n")).digest()[: _DIGITS // 2]
            if key in seen and self._has_no_id(raw):
                self.repeated += 1
            seen.add(key)

    def _has_no_id(self, raw: bytes) -> bool:
        try:
            given = self._object(raw)
        except BadRequest:
            return False
        return "custom_id" not in given and given.get("id") is None

    def _texts(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not empty, each with its number."""
        try:
            with self._path.open("rb") as file:
                number = 0
                while raw := file.readline(_MOST_BYTES + 1):
                    number += 1
                    rest = raw
                    while len(rest) > _MOST_BYTES and not rest.endswith(b"\n"):
                        rest = file.readline(_MOST_BYTES + 1)
                    text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                    if text.strip():
                        yield number, text
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be read: {error.strerror}") from error

    def _is_openai(self) -> bool:
        """Return whether the first JSON object of the file is a line of OpenAI's batch files."""
        for _, raw in self._texts():
            try:
                return "custom_id" in self._object(raw)
            except BadRequest:
                continue
        return False

    def _object(self, raw: bytes) -> dict[str, Any]:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadRequest("the line is not UTF-8 text") from error
        return {"query": text.strip("\r\n")} if self._path.suffix == ".txt" else read_object(text)

    def _line(self, number: int, given: dict[str, Any], seen: dict[bytes, int]) -> Line:
        read = _read_request(given, self.form)
        model = self._model_of(read.model)
        read.check(model)
        facts = {"model": model.name, **read.content()}
        ident = _hash(self.form, facts) if read.id is None else str(read.id)
        if read.id is None and _is_again(ident, seen):
            ident = f"{ident}-{seen[_key(ident)]}"
        run_id = f"{self._name}-{_hash(ident, facts)}"
        return Line(number=number, id=ident, run_id=run_id, given=given, request=read, model=model)

    def _model_of(self, named: object) -> ServedModel:
        if named is not None and not isinstance(named, str):
            raise BadRequest(f"the model {named!r:.80} is not a name", param="model")
        return self._model if named is None else self._find(named)

    def _find(self, name: str) -> ServedModel:
        try:
            return self._catalogue.find(name)
        except ModelUnknown:  # its text is for clients of a server
            known = [model.name for model in self._catalogue]
            told = f"there is no model {name!r:.200}: {_choice(name, 'models', known)}"
            raise ModelUnknown(told) from None


def _read_request(given: Mapping[str, Any], form: Form) -> OpenAILine | Question:
    """Return the request of a line."""
    kind = OpenAILine if form == "openai" else Question
    fields = [name for name in kind.model_fields if name != "failure"]
    for name in given:
        if name not in kind.model_fields:
            told = f"{name!r:.80} is not a field of a line: {_choice(name, 'fields', fields)}"
            raise BadRequest(told, code="unknown_parameter", param=name)
    raw = json_bytes(given)
    return read_body(raw, OpenAILine) if form == "openai" else read_body(raw, Question)


def _choice(name: str, what: str, known: Iterable[str]) -> str:
    """Return the names that exist, and the one that was probably meant."""
    names = list(known)
    near, told = get_close_matches(name, names, n=1), f"{what} are {', '.join(names)}"
    return f"did you mean {near[0]!r}? The {told}" if near else f"the {told}"


def _id_of(given: Mapping[str, Any]) -> str | None:
    named = given.get("custom_id", given.get("id"))
    return str(named) if isinstance(named, str | int) else None


def _is_again(ident: str, seen: dict[bytes, int]) -> bool:
    """Count an id, and return whether it was counted before."""
    key = _key(ident)
    seen[key] = seen.get(key, 0) + 1
    return seen[key] > 1


def _key(ident: str) -> bytes:
    return bytes.fromhex(_hash("id", ident))


def _hash(*facts: object) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:_DIGITS]
