"""Events as records: what is written is read back, and nothing else is."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from core.journal.happenings import course
from hypothesis import given, strategies as st

from podium import Limits, Plan, Step
from podium.errors import JournalBroken
from podium.types import Event, Outcome, StepEnded
from podium.types.codec import TYPES, decode, encode
from podium.types.events import PIECES

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    subtask = TEXT.filter(str.strip)
    steps = [
        Step(draw(st.integers(0, 9)), draw(subtask), tuple(draw(st.sets(st.integers(0, i - 1))) if i else ()))
        for i in range(draw(st.integers(0, 4)))
    ]
    return Plan(tuple(steps), why=draw(TEXT))


AMOUNTS = st.integers(1, 2**70)
LIMITS: Any = {"cost": st.none() | st.floats(0.001, 10.0), "input_tokens": st.none() | AMOUNTS}
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(-(2**70), 2**70),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    type(None): st.none(),
    Plan: plans(),
    Limits: st.builds(Limits, calls=AMOUNTS, seconds=st.floats(1.0, 1e6), **LIMITS),
    dict[str, str]: st.dictionaries(TEXT, TEXT, max_size=3),
    Mapping[str, Any]: st.dictionaries(TEXT, JSON, max_size=3),
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Return all values a field of this type can have; a result's rounds, which are not kept, stay empty."""
    if hint in PLAIN:
        return PLAIN[hint]
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        names = [field.name for field in fields(hint) if field.name != "rounds"]
        return st.builds(hint, **{name: values(hints[name]) for name in names})
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(args)
    if origin is frozenset:
        return st.frozensets(values(args[0]), max_size=3)
    if origin is tuple:
        many = args[-1] is Ellipsis
        return st.lists(values(args[0]), max_size=2).map(tuple) if many else st.tuples(*map(values, args))
    return st.one_of([values(arg) for arg in args])


EVENTS = st.one_of([values(kind) for kind in TYPES.values()])


@given(EVENTS)
def test_what_is_written_is_read_back(event: Event) -> None:
    text = encode(event)
    back = decode(text)
    assert back == event
    assert type(back) is type(event)
    assert "\0" not in text
    assert text.encode()


@given(EVENTS)
def test_every_event_is_json(event: Event) -> None:
    data = event.to_json()
    assert json.dumps(json.loads(json.dumps(data))) == json.dumps(data)
    assert (data["schema"], data["type"], data["run_id"]) == (2, event.type, event.run_id)


@given(EVENTS, st.data())
def test_a_cut_record_is_refused(event: Event, data: st.DataObject) -> None:
    """A record that ends too early is broken, never another event."""
    text = encode(event)
    with pytest.raises(JournalBroken) as caught:
        decode(text[: data.draw(st.integers(0, len(text) - 1))])
    assert caught.value.code == "journal_broken"


def test_every_event_but_pieces_of_text_has_a_record() -> None:
    assert set(TYPES.values()) == set(get_args(Event)) - set(PIECES)


def _changed(change: dict[str, Any], *path: str) -> str:
    record = json.loads(encode(next(e for e in course("r") if isinstance(e, StepEnded))))
    place = record
    for name in path:
        place = place[name]
    place.update(change)
    return json.dumps(record)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_changed({"schema": 1}), "schema 1"),
        (_changed({"schema": True}), "schema True"),
        (_changed({"type": "podium.types.events.RunEnded"}), "unknown type"),
        (_changed({"extra": 1}, "event"), "event.extra"),
        (_changed({"__class__": "os.system"}, "event", "outcome"), "outcome.__class__"),
        (_changed({"round": True}, "event"), "event.round"),
        (_changed({"round": None}, "event"), "event.round"),
        (_changed({"status": "done"}, "event", "outcome"), "status"),
    ],
)
def test_what_was_changed_is_refused(text: str, reason: str) -> None:
    with pytest.raises(JournalBroken, match=reason):
        decode(text)


def test_a_number_that_is_none_is_read_back() -> None:
    for cost in (float("nan"), float("inf")):
        outcome = Outcome(round=1, step=0, worker="w", status="ok", cost=cost)
        back = decode(encode(StepEnded(run_id="r", at=0.0, round=1, step=0, attempt=1, outcome=outcome)))
        assert repr(back.outcome.cost) == repr(cost)
