"""The checks that every `as_worker` makes, and a host's tool as a worker."""

import json
from typing import Any, Unpack

import pytest
from pydantic import BaseModel

from podium import Card, ChatWorker, Conductor, Endpoint, Message, Price, ScriptedWorker
from podium.errors import ConfigError, WorkerFailed, WorkerRefused, WorkerTimeout
from podium.hosts import CardMaker, CardOptions, ConductorFace, ToolWorker, text_of
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.usage import Usage
from podium.workers import Request, Worker, complete

pytestmark = pytest.mark.anyio
TEXT = {"type": "object", "properties": {"city": {"type": "string"}}}
TWO = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


class Called:
    """A tool that returns its arguments."""

    def __init__(self) -> None:
        self.arguments: list[dict[str, Any]] = []

    async def __call__(self, arguments: dict[str, Any]) -> str:
        self.arguments.append(arguments)
        return json.dumps(arguments)


def ask(subtask: str, *, stream: bool = False) -> Request:
    return Request(messages=(Message("user", subtask),), stream=stream)


async def test_a_tool_of_several_arguments_is_given_json() -> None:
    tool = Called()
    worker = ToolWorker(TWO, tool, card=Card(name="add", description="Adds."))
    rule = 'Its subtask is a JSON object of "a" (integer), "b" (integer), and nothing else.'
    assert worker.card.description == f"Adds. {rule}"
    assert ToolWorker(TWO, tool, card=worker.card).card == worker.card
    await complete(worker, ask('Here: ```json\n{"a": 6, "b": 7}\n```'))
    for wrong in ("six and seven", "[1, 2]", "{" * 100_000 + "}"):
        with pytest.raises(WorkerRefused, match=r'"a" \(integer\)'):
            await complete(worker, ask(wrong))
    assert tool.arguments == [{"a": 6, "b": 7}]


async def test_a_number_that_is_written_as_text_is_a_number() -> None:
    """An output that is filled in is text; one that is no number is refused before the tool is called."""
    tool = Called()
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "number"}, "c": {"type": "string"}}}
    worker = ToolWorker(schema, tool, card=Card(name="add"))
    await complete(worker, ask('{"a": " 42\\n", "b": "1.5e3", "c": "7"}'))
    await complete(worker, ask('{"a": 42, "b": 1}'))
    assert tool.arguments == [{"a": 42, "b": 1500.0, "c": "7"}, {"a": 42, "b": 1}]
    for name, wrong in (("a", "about 42"), ("a", "4.5"), ("a", ""), ("b", "nan"), ("b", "1e999")):
        with pytest.raises(WorkerRefused, match=f"argument '{name}' of tool .* must be of type"):
            await complete(worker, ask(json.dumps({name: wrong})))
    assert len(tool.arguments) == 2


async def test_a_json_object_is_the_arguments() -> None:
    tool = Called()
    worker = ToolWorker({**TEXT, "required": ["city"]}, tool, card=Card(name="weather"))
    for subtask, named in (
        ('{"town": "Bern"}', "'town' was unexpected"),
        ('```json\n{"day": "1"}\n```', "'day' was unexpected"),
        ("{}", "'city' is a required property"),
        ('{"city": null}', "a wrong argument 'city': None is not of type 'string'"),
    ):
        with pytest.raises(WorkerRefused, match=named):
            await complete(worker, ask(subtask))
    assert not tool.arguments
    texts = ["[1, 2]", '"Bern"', "{city}", 'the weather of {"city": "Bern"}']
    for text in texts:
        await complete(worker, ask(text))
    assert tool.arguments == [{"city": text} for text in texts]


async def test_a_broken_schema_is_told() -> None:
    """One that is none when the worker is made; one that refers to what is not in it when it is called."""
    with pytest.raises(ConfigError, match="'add' is invalid"):
        ToolWorker({"properties": {"a": {"type": "whole"}, "b": {}}}, Called(), card=Card(name="add"))
    away = {"properties": {"a": {"$ref": "http://127.0.0.1:9/a.json"}, "b": {"type": "integer"}}}
    worker = ToolWorker(away, Called(), card=Card(name="add"))
    with pytest.raises(WorkerFailed, match="Unresolvable"):
        await complete(worker, ask('{"a": 1}'))


async def test_what_a_tool_raises_and_spends_is_told() -> None:
    async def late(arguments: dict[str, Any]) -> str:
        raise TimeoutError("late")

    async def asks_a_model(arguments: dict[str, Any]) -> Completion:
        return Completion("31 degrees", usage=Usage(5, 6))

    card = Card(name="weather")
    with pytest.raises(WorkerTimeout, match="worker 'weather' did not answer in time"):
        await complete(ToolWorker(TEXT, late, card=card), ask("Bern"))
    pieces = [piece async for piece in ToolWorker(TEXT, asks_a_model, card=card).call(ask("x", stream=True))]
    assert pieces == ["31 degrees", Completion("31 degrees", usage=Usage(5, 6))]


def test_values_become_text() -> None:
    """Text as it is, anything else as JSON that can be stored; an object's address is not an answer."""

    class Point(BaseModel):
        x: int

    texts = [text_of(value) for value in (None, "a\0b", Point(x=1), [Point(x=2)])]
    assert texts == ["", "a\N{REPLACEMENT CHARACTER}b", '{"x": 1}', '[{"x": 2}]']
    for value in (object(), b"x", float("nan"), {"at": print}):
        with pytest.raises(WorkerFailed, match="the worker returned a value of type"):
            text_of(value)


class Keeper:
    """A host's object that has a conductor, and does more than ask it."""

    def __init__(self, conductor: Conductor) -> None:
        self.conductor = conductor


class Face(Keeper):
    """A host's object that a conductor answers for."""


ConductorFace.register(Face)


def as_worker(thing: object, **options: Unpack[CardOptions]) -> Worker | Card:
    """Return what an adapter would: a worker of Podium's, or the card of a host's object."""
    maker = CardMaker(options)
    own = maker.podium_worker(thing)
    facts: dict[str, Any] = {"context_window": 9, "parts": frozenset({"file"}), "concurrency": 1}
    return own or maker.card(name="the\nthing ", description="Does\n things. ", **facts)


def conductor() -> Conductor:
    return Conductor(FixedPlanner(""), [ScriptedWorker("a", "x")])


def test_a_card_is_derived_with_what_is_said_in_place() -> None:
    facts: dict[str, Any] = {"context_window": 9, "parts": frozenset({"file"}), "concurrency": 1}
    assert as_worker(object()) == Card(name="the thing", description="Does things.", **facts)
    price = Price(input=1, output=2)
    said = as_worker(object(), name="n", description="", price=price, labels=iter(["eu"]))
    assert said == Card(name="n", price=price, labels=frozenset({"eu"}), **facts)
    card = Card(name="whole")
    assert as_worker(object(), card=card) is card


def test_a_card_beside_parts_of_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="either a card"):
        as_worker(object(), card=Card(name="a"), description="")
    with pytest.raises(ConfigError, match="already has a card"):
        as_worker(ScriptedWorker("a", "x"), labels=["eu"])


def test_what_is_no_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a name"):
        CardMaker({}).card(name="\n \t")
    with pytest.raises(ConfigError, match="printable"):
        as_worker(object(), name="a\nb")
    with pytest.raises(ConfigError, match="labels"):
        as_worker(object(), labels="eu")
    with pytest.raises(TypeError, match="nam"):
        as_worker(object(), nam="x")  # type: ignore[call-arg]


def test_podium_s_own_workers_pass_and_faces_are_their_conductor() -> None:
    worker, inner = ScriptedWorker("a", "x"), conductor()
    assert as_worker(worker) is worker
    assert as_worker(inner) is inner
    assert as_worker(Face(inner)) is inner
    assert isinstance(as_worker(Keeper(inner)), Card)
    assert isinstance(as_worker(ChatWorker("m", endpoint=Endpoint("http://127.0.0.1:9/v1"))), ChatWorker)
